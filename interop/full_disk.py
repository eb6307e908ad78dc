"""Errors of a full disk, for libraries that hide them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from safetensors import SafetensorError


@contextmanager
def disk_errors() -> Iterator[None]:
    """Convert the error of safetensors, if the operating system refuses to write a file, to OSError."""
    try:
        yield
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number)) from error
