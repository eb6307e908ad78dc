"""Files that appear complete or not at all, after a power cut too."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path


def write_whole(final: Path, content: bytes, *, replace: bool = True, durable: bool = True) -> None:
    """The file appears complete or not at all. Raises OSError naming it; FileExistsError if it may not be replaced.

    durable: it is on the disk when this returns. False is for what can be made again: after a power cut such a file may
    be empty under its name.
    """
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}")
    try:
        partial.write_bytes(content)
        if durable:
            flush(partial)
        if replace:
            partial.replace(final)
        else:
            _claim(partial, final)
        if durable:
            flush(final.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(final)) from error
    finally:
        partial.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Ask the operating system to put a file or a folder's entries on the disk now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():  # files may be made in it, but it may not be listed
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems flush files only
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def _claim(partial: Path, final: Path) -> None:
    """Put a file into a place that nobody else has."""
    try:
        os.link(partial, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: for a moment an empty file holds the name
        final.touch(exist_ok=False)
        partial.replace(final)
