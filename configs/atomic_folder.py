"""Write a new folder as a whole: it appears with all its files, or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from configs.errors import UserError


def check_new(folder: Path, key: str) -> None:
    """Raise UserError, naming the setting `key`, if `folder` exists already or cannot be created."""
    if folder.exists() or folder.is_symlink():
        raise UserError(f"{key}={folder}: exists already; choose another folder, or delete it")
    above = next((parent for parent in folder.parents if parent.exists()), Path())
    if not above.is_dir():
        raise UserError(f"{key}={folder}: cannot be created, because {above} is a file")


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `final`; rename it to `final` after the block, or delete it, and the
    folders above it that did not exist, if the block raises. Raises OSError, with the name of `final`, if it exists
    with content or cannot be written."""
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}")
    created = [above for above in final.parents if not above.exists()]
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(final)
    except OSError as error:
        if error.filename is not None and not Path(os.fsdecode(error.filename)).is_relative_to(partial):
            raise
        raise OSError(error.errno, error.strerror or str(error), str(final)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for above in created:
            with suppress(OSError):
                above.rmdir()  # if it is empty
