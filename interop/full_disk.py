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
        match = re.search(r"\(os error (\d+)\)", str(error))
        number = int(match[1]) if match else errno.EIO
        raise OSError(number, os.strerror(number)) from error
