"""Check the files and folders in the settings before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from configs.errors import UserError
from configs.program import expanded


@dataclass
class NoSettings:
    """Empty settings, for commands without options."""


def existing(key: str, value: str, kind: Literal["file", "folder"] = "file", hint: str = "") -> Path:
    """Return the absolute path of an existing file or folder. Raises UserError, ending in `hint`, if there is none."""
    path = expanded(value).absolute()
    if not value or not (path.is_file() if kind == "file" else path.is_dir()):
        raise UserError(f"{key}={value}: no such {kind}{hint}")
    return path


def absolute(value: str) -> str:
    """Return the absolute path of a setting; an empty setting stays empty."""
    return value and str(expanded(value).absolute())
