"""Check the files and folders in the settings before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from configs.program import expanded


@dataclass
class NoSettings:
    """Empty settings, for commands without options."""


def existing_file(key: str, value: str) -> Path:
    """Return the absolute path of an existing file. Raises UserError if it does not exist."""
    path = expanded(value).absolute()
    if not value or not path.is_file():
        raise UserError(f"{key}={value}: no such file")
    return path


def existing_folder(key: str, value: str, hint: str = "") -> Path:
    """Return the absolute path of an existing folder. Raises UserError, ending in `hint`, if it does not exist."""
    path = expanded(value).absolute()
    if not value or not path.is_dir():
        raise UserError(f"{key}={value}: no such folder{hint}")
    return path


def absolute(value: str) -> str:
    """Return the absolute path of a setting; an empty setting stays empty."""
    return value and str(expanded(value).absolute())
