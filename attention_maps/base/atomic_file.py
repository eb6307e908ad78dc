"""Atomic file writes: a file is complete or absent, even after a power failure."""

from __future__ import annotations

import errno
import os
import re
import uuid
from contextlib import suppress
from pathlib import Path


def write_whole(final: Path, content: bytes, *, replace: bool = True, durable: bool = True) -> None:
    """Write a file atomically. Raises OSError with its name; FileExistsError if it exists and `replace` is false.

    durable: the file is on disk when this function returns. Use false for files that can be regenerated: after a power
    failure such a file may exist but be empty.
    """
    partial = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}")
    try:
        partial.write_bytes(content)
        if durable:
            flush(partial)
        if replace:
            partial.replace(final)
        else:
            try:
                os.link(partial, final)
            except FileExistsError:
                raise
            except OSError:  # no hard links: an empty file briefly reserves the name
                final.touch(exist_ok=False)
                partial.replace(final)
        if durable:
            flush(final.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(final)) from error
    finally:
        partial.unlink(missing_ok=True)


def remove_partial(folder: Path, keep: str = "") -> None:
    """Delete the partial files that processes killed in `write_whole` have left in a folder, except those whose name
    begins with `keep`, which another process may be writing."""
    for path in folder.glob(".*"):
        if re.fullmatch(r"\..+\.[0-9a-f]{8}", path.name) and not (keep and path.name.startswith(keep)):
            with suppress(OSError):
                path.unlink()


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():  # files can be created in it, but it cannot be listed
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems flush files only
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
