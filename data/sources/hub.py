"""Load datasets of the Hugging Face hub by name."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from configs.program import expanded
from data.cache_folders import cache_folder
from data.config import DataConfig
from data.errors import DataError
from data.sources.files import SPLIT_NAMES
from data.sources.tables import root_cause

_NAMING = ("path", "subset", "revision")
"""Settings that name a dataset."""
_TIMEOUT = 5  # seconds without a response after which the hub counts as unreachable


def hub_content(config: DataConfig) -> dict[str, Any]:
    """Return what identifies the rows: a hash that changes with the dataset (without a network, that of the local copy)
    and the chosen splits."""
    import datasets

    name, options = _name(config), _options(config)
    with _asking_the_hub(config):
        builder = datasets.load_dataset_builder(name, config.subset, **options)
    return {"revision": f"{builder.config_id}-{builder.hash}", "splits": _chosen(config)}


def hub_splits(config: DataConfig, notes: list[str]) -> dict[str, Any]:
    """Return a Dataset (streaming: IterableDataset) per split, under our split names; notes list unused splits."""
    import datasets

    name, options, chosen = _name(config), _options(config), _chosen(config)
    with _asking_the_hub(config):
        names = datasets.get_dataset_split_names(name, config.subset, **options)
    used = {word for choice in chosen.values() for word in re.findall(r"[\w.-]+", re.sub(r"\[.*?\]", "", choice))}
    for split in names:
        ours = SPLIT_NAMES.get(split)
        if ours and ours not in chosen and split not in used:
            chosen[ours] = split
    if "train" not in chosen:
        raise DataError(
            f"data.path={config.path}: this dataset has no split named train: choose one with data.train_split; it has:"
            f" {', '.join(names)}"
        )
    splits = {}
    for split, choice in chosen.items():
        with _asking_the_hub(config, f"{split}_split"):
            splits[split] = datasets.load_dataset(
                name, config.subset, split=choice, streaming=config.streaming, **options
            )
    if unused := [split for split in names if split not in {*used, *chosen.values()}]:
        notes.append(f"data.path={config.path}: these splits of the dataset are not used: {', '.join(unused)}")
    return splits


def _chosen(config: DataConfig) -> dict[str, str]:
    """Return the splits of the dataset that the config names, by our split names. Raises DataError for one that cannot
    be read."""
    import datasets

    named = {"train": config.train_split, "valid": config.valid_split, "test": config.test_split}
    choices = {split: choice for split, choice in named.items() if choice}
    for split, choice in choices.items():
        try:
            datasets.ReadInstruction.from_spec(choice)
        except Exception as error:  # "not a split" has several types
            form = "write it like train, train[:10%], train[100:200] or train+extra"
            raise DataError(f"data.{split}_split={choice}: is not a split or a part of one; {form}") from error
    return choices


def _options(config: DataConfig) -> dict[str, Any]:
    return {"revision": config.revision, "cache_dir": str(cache_folder(config, "hub"))}


def _name(config: DataConfig) -> str:
    if not config.path:
        raise DataError("data.path is not set: give the name of a hub dataset, owner/name")
    folder = expanded(config.path)  # the library accepts a folder in place of a name
    if not folder.is_dir():
        return config.path
    if config.revision:
        raise DataError(
            f"data.revision={config.revision}: is for datasets of the hub, but data.path={config.path} is a folder on"
            " this machine, which has no revisions; remove data.revision, or rename the folder"
        )
    if glob.has_magic(str(folder)):
        raise DataError(
            f"data.path={config.path}: data=hub reads *, ? and [ in the name of a folder as a pattern, which may match"
            " other files; rename the folder, or use data=text or data=pairs"
        )
    return str(folder)


@contextmanager
def _asking_the_hub(config: DataConfig, *more: str) -> Iterator[None]:
    """Turn every exception into a DataError, which names the dataset, and `more` settings. If the hub is unreachable,
    the library is set to offline mode: it uses its local copy or fails at once, instead of after six attempts and half
    a minute."""
    import datasets
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub import constants

    reason = "" if expanded(config.path or "").is_dir() else _unreachable()
    offline = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if reason:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:  # "not found" alone has a dozen types, from three packages
        name = " ".join(f"data.{key}={value}" for key in (*_NAMING, *more) if (value := getattr(config, key)))
        if reason:
            raise DataError(
                f"{name}: there is no local copy, and the hub cannot be reached: {constants.ENDPOINT} ({reason})"
            ) from error
        cause = str(error) if isinstance(error, DatasetNotFoundError) else root_cause(error)
        cause += "; pip install zstandard" if "zstd" in cause else ""
        raise DataError(f"{name}: cannot be loaded from the hub ({cause})") from error
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
