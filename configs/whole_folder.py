"""Write a new folder as a whole: it appears with all its files, or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Yield an empty temporary folder beside `final`; rename it to `final` after the block, or delete it if the block
    raises. Raises OSError, with the name of `final`, if it exists with content or cannot be written."""
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}")
    partial.mkdir(parents=True)
    try:
        yield partial
        try:
            partial.rename(final)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(final)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
