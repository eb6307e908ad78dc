"""Where prepared data lies."""

from __future__ import annotations

from pathlib import Path

from configs.program import expanded
from data.config import DataConfig


def cache_folder(config: DataConfig, kind: str) -> Path:
    """Where prepared data of one kind (rows, tokens, downloads, …) is kept."""
    return expanded(config.cache) / kind
