"""The formats of `export.py`, and who writes each of them."""

from __future__ import annotations

import errno
import importlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from safetensors import SafetensorError

from configs.errors import UserError
from interop.export_input import Trained
from interop.settings import ExportSettings

Exporter = Callable[[Trained, Path, ExportSettings], list[str]]
"""Writes a model into an empty folder and returns lines for the terminal: what was written, and how to use it. Raises
UserError, naming the option, if the format cannot hold the model exactly."""

FORMATS = {
    "huggingface": ("interop.huggingface.export", "write_huggingface", ("transformers",)),
    "gguf": ("interop.gguf.export", "write_gguf", ("gguf",)),
    "ctranslate2": ("interop.ctranslate.export", "write_ctranslate2", ("ctranslate2",)),
}
"""For each format: the module and function that write it, and the packages that it needs (extra `export`)."""


def exporter(name: str) -> Exporter:
    """Return the function that writes a format. Raises UserError if a package that it needs is not installed."""
    module, function, packages = FORMATS[name]
    if missing := [package for package in packages if find_spec(package) is None]:
        needed = f"needs {' and '.join(missing)}, which is not installed"
        raise UserError(f"format={name}: {needed}: pip install -e '.[export]'")
    write: Exporter = getattr(importlib.import_module(module), function)
    return write


@contextmanager
def disk_errors() -> Iterator[None]:
    """Convert the error of safetensors, if the operating system refuses to write a file, to OSError."""
    try:
        yield
    except SafetensorError as error:
        match = re.search(r"\(os error (\d+)\)", str(error))
        number = int(match[1]) if match else errno.EIO
        raise OSError(number, os.strerror(number)) from error
