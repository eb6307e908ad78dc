"""Files and folders that settings name, checked before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from configs.program import expanded


@dataclass
class NoSettings:
    """Of a command without settings."""


def existing_file(key: str, value: str) -> Path:
    """The absolute path of a file. Raises UserError."""
    path = expanded(value).absolute()
    if not value or not path.is_file():
        raise UserError(f"{key}={value}: no such file")
    return path


def existing_folder(key: str, value: str, hint: str = "") -> Path:
    """The absolute path of a folder. Raises UserError, with the hint behind its message."""
    path = expanded(value).absolute()
    if not value or not path.is_dir():
        raise UserError(f"{key}={value}: no such folder{hint}")
    return path


def absolute(value: str) -> str:
    """An absolute path for a contender's arguments; an empty setting stays empty."""
    return value and str(expanded(value).absolute())
