"""Resolve `data.path` to the files of each split: folders, globs, URLs, aligned files."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from pathlib import Path

from configs.program import expanded
from data.cache import cache_folder
from data.config import DataConfig
from data.errors import DataError
from data.sources.download import download, is_url

SPLIT_NAMES = dict.fromkeys(("train", "training"), "train") | {"test": "test"}
SPLIT_NAMES |= dict.fromkeys(("valid", "validation", "val", "dev"), "valid")
"""The split that a word in a file name, or a split name of the hub, refers to."""

Entries = list[tuple[Path, ...]]
"""Entries of one file, or of two files (source, target) aligned line by line."""

_FORMATS = {".tsv": "tsv", ".csv": "csv", ".parquet": "parquet", ".txt": "text", ".text": "text"}
_FORMATS |= dict.fromkeys((".jsonl", ".ndjson", ".json"), "json")
_NO_DATA = {"readme", "license", "licence", "copying", "sources"}


@dataclass(frozen=True)
class Located:
    """Files of each split."""

    format: str
    """`text`, `tsv`, `csv`, `json` (lines), `parquet` or `aligned`."""

    splits: dict[str, Entries]

    notes: list[str]
    """Notes on unused files in the folder, one line each."""


def locate(config: DataConfig, task: str) -> Located:
    """Find the files of a `text` or `pairs` source. Raises DataError naming the key if there are none."""
    if not (config.path or config.valid_path or config.test_path):
        raise DataError(f"data.path is not set: give a file, folder, glob or URL for data={config.source}")
    folder = expanded(config.path) if config.path else None  # None: a validation or test file alone
    whole = folder is not None and folder.is_dir()
    splits: dict[str, Entries] = {}
    if folder is not None and whole:
        splits = _discover(folder, config, task)
    elif config.path:
        splits = {"train": _entries(config.path, "data.path", config)}
    for split, path in (("valid", config.valid_path), ("test", config.test_path)):
        if path:
            splits[split] = _entries(path, f"data.{split}_path", config)
    held_out = {file.resolve() for split in splits if split != "train" for entry in splits[split] for file in entry}
    if whole or len(splits.get("train", [])) > 1:  # of a folder or a glob, files of another split are left out
        splits["train"] = [entry for entry in splits["train"] if entry[0].resolve() not in held_out]
        if not splits["train"]:
            raise DataError(
                f"data.path={folder}: no file is left to train on besides data.valid_path and data.test_path"
            )
    formats = {_format(entry, task): entry for entries in splits.values() for entry in entries}
    if len(formats) > 1:
        found = ", ".join(f"{kind} ({entry[0].name})" for kind, entry in sorted(formats.items()))
        raise DataError(f"data.path: the files are of different kinds: {found}; name files of one kind")
    return Located(next(iter(formats)), splits, _unused(folder, splits) if folder is not None and whole else [])


def _format(entry: tuple[Path, ...], task: str) -> str:
    if len(entry) == 2:
        return "aligned"
    kind = _FORMATS.get(entry[0].suffix.lower(), "text")
    # Pairs in a .txt file are tab-separated (as Anki and Tatoeba export them).
    return "tsv" if kind == "text" and task == "translate" else kind


def _entries(path: str, key: str, config: DataConfig) -> Entries:
    names = _sides(path) if config.source == "pairs" else None
    if names is None:
        return [(file,) for file in _files(path, key, config)]
    sides = [_files(name, key, config) for name in names]
    if len(sides[0]) != len(sides[1]):
        raise DataError(f"{key}={path}: {len(sides[0])} source files but {len(sides[1])} target files")
    return list(zip(*sides, strict=True))


def _sides(path: str) -> tuple[str, str] | None:
    """Return the two names of a list of aligned files; None for a single name, which may also contain commas.

    A list is split at the comma that has a file, a URL or a match on both sides.
    """
    if expanded(path).exists():
        return None
    cuts = [(path[: comma.start()].strip(), path[comma.end() :].strip()) for comma in re.finditer(",", path)]
    found = [cut for cut in cuts if all(is_url(name) or expanded(name).is_file() or _matches(name) for name in cut)]
    if found:
        return found[0]
    return (
        cuts[0] if len(cuts) == 1 and not is_url(path) and not _matches(path) else None
    )  # the error names the missing file


def _files(path: str, key: str, config: DataConfig) -> list[Path]:
    if is_url(path):
        return [download(path, cache_folder(config, "downloads"))]
    place = expanded(path)
    if place.is_file():
        return [place]
    if place.is_dir():
        raise DataError(f"{key}={path}: is a folder; only data.path may be one")
    if found := _matches(path):
        return found
    if any(character in path for character in "*?["):
        raise DataError(f"{key}={path}: no file matches")
    if "," in path:
        fix = (
            "give exactly two files, source and target, separated by a comma"
            if config.source == "pairs"
            else "a list of two files is for data=pairs; for text use a glob or a folder"
        )
        raise DataError(f"{key}={path}: {fix}")
    raise DataError(f"{key}={path}: no such file or folder (looked in {Path.cwd()})")


def _matches(pattern: str) -> list[Path]:
    """Return the files that match a glob, sorted. Existing folders are not treated as patterns: `books [2]/*.txt`."""
    place = expanded(pattern)
    folder = next((parent for parent in place.parents if parent.is_dir()), Path())
    names = glob.iglob(str(place.relative_to(folder)), root_dir=folder, recursive=True)  # noqa: PTH207 - finds no hidden files
    return sorted(folder / name for name in names if (folder / name).is_file())


def _split_of(name: str) -> str | None:
    words = re.split(r"[._\-]", name.lower())
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), None)


def _discover(folder: Path, config: DataConfig, task: str) -> dict[str, Entries]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    entries: Entries = []
    if task == "translate":
        sources = [file for file in files if file.suffix == f".{config.source_column}"]
        pairs = [(file, file.with_suffix(f".{config.target_column}")) for file in sources]
        entries = [(file, other) for file, other in pairs if other.is_file()]
    if not entries:
        kinds: dict[str, Entries] = {}
        for file in files:
            if file.suffix.lower() in _FORMATS and file.stem.lower() not in _NO_DATA:
                kinds.setdefault(_format((file,), task), []).append((file,))
        order = ("tsv", "csv", "json", "parquet") if task == "translate" else ("text", "json", "parquet", "csv", "tsv")
        entries = next((kinds[kind] for kind in order if kind in kinds), [])
    if not entries:
        raise DataError(_nothing_found(folder, files, task))
    splits: dict[str, Entries] = {}
    for entry in entries:
        splits.setdefault(_split_of(entry[0].name) or "", []).append(entry)
    if set(splits) == {""}:
        return {"train": entries}
    if "train" not in splits:
        raise DataError(f"data.path={folder}: no training file; name it train.*, or give data.path one file")
    splits.pop("", None)
    return splits


def _unused(folder: Path, splits: dict[str, Entries]) -> list[str]:
    """Return a note on the files and folders that belong to no split."""
    used = {os.path.realpath(file) for entries in splits.values() for entry in entries for file in entry}
    others = [
        place.name + "/" * place.is_dir()
        for place in sorted(folder.iterdir())
        if os.path.realpath(place) not in used and not place.name.startswith(".") and place.stem.lower() not in _NO_DATA
    ]
    chosen = "; ".join(f"{split}: {_listed([entry[0].name for entry in found])}" for split, found in splits.items())
    note = f"data.path={folder}: uses {chosen}. Not used: {_listed(others)}; to choose others, set data.path to a glob"
    return [note] if others else []


def _listed(names: list[str]) -> str:
    """List the first few names and the number of the rest."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _nothing_found(folder: Path, files: list[Path], task: str) -> str:
    suffixes = sorted({file.suffix for file in files if _split_of(file.name) == "train"} - {""})
    if task == "translate" and len(suffixes) == 2:
        first, second = (suffix[1:] for suffix in suffixes)
        return (
            f"data.path={folder}: to translate from train.{first} to train.{second} set "
            f"data.source_column={first} data.target_column={second}"
        )
    if not files:
        return f"data.path={folder}: the folder is empty"
    kinds = ".tsv, .csv, .jsonl, .parquet" + (" or two aligned files" if task == "translate" else " or .txt")
    return f"data.path={folder}: no data files ({kinds}) in this folder"
