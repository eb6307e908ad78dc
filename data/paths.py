"""Paths as people type them."""

from __future__ import annotations

from pathlib import Path

from data.config import DataConfig


def expanded(path: str) -> Path:
    """The path with a leading `~` or `~name` replaced by that home folder; an unknown name stays, and is not found."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def cache_folder(config: DataConfig, kind: str) -> Path:
    """Where prepared data of one kind (rows, tokens, downloads, …) is kept."""
    return expanded(config.cache) / kind
