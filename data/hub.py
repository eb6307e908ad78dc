"""Datasets of the Hugging Face hub, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data.config import DataConfig
from data.errors import DataError
from data.locate import SPLIT_NAMES
from data.tables import root_cause


def hub_revision(config: DataConfig) -> str:
    """What the name means today: a hash that changes when the dataset does. Without a network, that of the local
    copy."""
    import datasets

    try:
        builder = datasets.load_dataset_builder(_name(config), config.subset, cache_dir=_cache(config))
    except Exception as error:  # the library has a dozen error types of three packages for "not found" alone
        raise _explained(config, error) from error
    return f"{builder.config_id}-{builder.hash}"


def hub_splits(config: DataConfig) -> dict[str, Any]:
    """Dataset (streaming: IterableDataset) of each split, under our split names."""
    import datasets

    try:
        found = datasets.load_dataset(
            _name(config), config.subset, cache_dir=_cache(config), streaming=config.streaming
        )
    except Exception as error:
        raise _explained(config, error) from error
    splits = {SPLIT_NAMES[name]: rows for name, rows in found.items() if name in SPLIT_NAMES}
    if "train" not in splits:
        raise DataError(
            f"data.path={config.path}: this dataset has no split named train; it has: {', '.join(map(str, found))}"
        )
    return splits


def _name(config: DataConfig) -> str:
    if not config.path:
        raise DataError("data.path is not set: give the name of a hub dataset, owner/name")
    return config.path


def _cache(config: DataConfig) -> str:
    return str(Path(config.cache) / "hub")


def _explained(config: DataConfig, error: Exception) -> DataError:
    name = f"data.path={config.path}" + (f" data.subset={config.subset}" if config.subset else "")
    return DataError(f"{name}: cannot be loaded from the hub ({root_cause(error)})")
