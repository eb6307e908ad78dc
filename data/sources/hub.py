"""Load datasets of the Hugging Face hub by name."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from configs.program import expanded
from data.cache import cache_folder
from data.config import DataConfig
from data.errors import DataError
from data.sources.files import SPLIT_NAMES
from data.sources.tables import root_cause

_TIMEOUT = 5  # seconds without a response after which the hub counts as unreachable


def hub_revision(config: DataConfig) -> str:
    """Return a hash that changes with the dataset; without a network, the hash of the local copy."""
    import datasets

    name = _name(config)
    with _asking_the_hub(config):
        builder = datasets.load_dataset_builder(name, config.subset, cache_dir=str(cache_folder(config, "hub")))
    return f"{builder.config_id}-{builder.hash}"


def hub_splits(config: DataConfig, notes: list[str]) -> dict[str, Any]:
    """Return a Dataset (streaming: IterableDataset) per split, under our split names; notes list unused splits."""
    import datasets

    name = _name(config)
    with _asking_the_hub(config):
        found = datasets.load_dataset(
            name, config.subset, cache_dir=str(cache_folder(config, "hub")), streaming=config.streaming
        )
    splits: dict[str, Any] = {}
    for split, rows in found.items():
        if split in SPLIT_NAMES:
            splits.setdefault(SPLIT_NAMES[split], rows)
    if "train" not in splits:
        names = ", ".join(map(str, found))
        raise DataError(f"data.path={config.path}: this dataset has no split named train; it has: {names}")
    unused = [str(split) for split, rows in found.items() if all(rows is not used for used in splits.values())]
    if unused:
        notes.append(f"data.path={config.path}: these splits of the dataset are not used: {', '.join(unused)}")
    return splits


def _name(config: DataConfig) -> str:
    if not config.path:
        raise DataError("data.path is not set: give the name of a hub dataset, owner/name")
    folder = expanded(config.path)  # the library accepts a folder in place of a name
    if not folder.is_dir():
        return config.path
    if glob.has_magic(str(folder)):
        raise DataError(
            f"data.path={config.path}: data=hub reads *, ? and [ in the name of a folder as a pattern, which may match"
            " other files; rename the folder, or use data=text or data=pairs"
        )
    return str(folder)


@contextmanager
def _asking_the_hub(config: DataConfig) -> Iterator[None]:
    """Turn every exception into a DataError. If the hub is unreachable, the library is set to offline mode: it uses its
    local copy or fails at once, instead of after six attempts and half a minute."""
    import datasets
    from huggingface_hub import constants

    reason = "" if expanded(config.path or "").is_dir() else _unreachable()
    offline = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if reason:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:  # "not found" alone has a dozen types, from three packages
        name = f"data.path={config.path}" + (f" data.subset={config.subset}" if config.subset else "")
        if reason:
            raise DataError(
                f"{name}: there is no local copy, and the hub cannot be reached: {constants.ENDPOINT} ({reason})"
            ) from error
        raise DataError(f"{name}: cannot be loaded from the hub ({root_cause(error)})") from error
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = offline


def _unreachable() -> str:
    """Return the reason why the hub is unreachable, "" if it responds. Uses the library's session, with its proxies,
    mirrors and certificates."""
    import datasets
    import huggingface_hub
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if datasets.config.HF_HUB_OFFLINE:
        return "HF_DATASETS_OFFLINE is set"
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=_TIMEOUT)
    except Exception as error:  # the type depends on the HTTP library, which has changed before
        return root_cause(error)
    return ""
