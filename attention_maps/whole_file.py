"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(final: Path, content: bytes, *, replace: bool = True) -> None:
    """The file appears complete or not at all. Raises OSError naming it; FileExistsError if it may not be replaced."""
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}")
    try:
        # Not flushed to the disk: after a power cut `load` reports a short file, and a map can be recorded again.
        partial.write_bytes(content)
        if replace:
            partial.replace(final)
        else:
            _claim(partial, final)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(final)) from error
    finally:
        partial.unlink(missing_ok=True)


def _claim(partial: Path, final: Path) -> None:
    """Put a file into a place that nobody else has."""
    try:
        os.link(partial, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: for a moment an empty file holds the name
        final.touch(exist_ok=False)
        partial.replace(final)
