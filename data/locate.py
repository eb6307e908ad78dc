"""From `data.path` to files: folders, globs, addresses, aligned files, and which split each belongs to."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import Path

from configs.program import expanded
from data.config import DataConfig
from data.download import download, is_url
from data.errors import DataError
from data.paths import cache_folder

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
}
"""Words in file names (and hub split names) that name a split."""

_FORMATS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".txt": "text",
    ".text": "text",
}
_NO_DATA = {"readme", "license", "licence", "copying", "sources"}


@dataclass(frozen=True)
class Located:
    """Files of each split that has its own. An entry is one file, or two (source, target) that are aligned line by
    line."""

    format: str
    """`text`, `tsv`, `csv`, `json` (lines), `parquet` or `aligned`."""

    splits: dict[str, list[tuple[Path, ...]]]


def locate(config: DataConfig, task: str) -> Located:
    """Find the files of a `text` or `pairs` source. Raises DataError naming the key when there are none."""
    if not config.path:
        raise DataError(f"data.path is not set: give a file, folder, glob or address for data={config.source}")
    folder = expanded(config.path)
    splits = (
        _discover(folder, config, task) if folder.is_dir() else {"train": _entries(config.path, "data.path", config)}
    )
    for split, path, key in (
        ("valid", config.valid_path, "data.valid_path"),
        ("test", config.test_path, "data.test_path"),
    ):
        if path:
            splits[split] = _entries(path, key, config)
    formats = {_format(entry, task): entry for entries in splits.values() for entry in entries}
    if len(formats) > 1:
        found = ", ".join(f"{kind} ({entry[0].name})" for kind, entry in sorted(formats.items()))
        raise DataError(f"data.path: the files are of different kinds: {found}; name files of one kind")
    return Located(next(iter(formats)), splits)


def _format(entry: tuple[Path, ...], task: str) -> str:
    if len(entry) == 2:
        return "aligned"
    kind = _FORMATS.get(entry[0].suffix.lower(), "text")
    # Pairs in a .txt file are tab-separated (as Anki and Tatoeba export them).
    return "tsv" if kind == "text" and task == "translate" else kind


def _entries(path: str, key: str, config: DataConfig) -> list[tuple[Path, ...]]:
    if "," in path and not expanded(path).exists():
        names = [name.strip() for name in path.split(",")]
        if config.source != "pairs":
            raise DataError(f"{key}={path}: a list of two files is for data=pairs; for text use a glob or a folder")
        if len(names) != 2:
            raise DataError(f"{key}={path}: give exactly two files, source and target, separated by a comma")
        sides = [_files(name, key, config) for name in names]
        if len(sides[0]) != len(sides[1]):
            raise DataError(f"{key}={path}: {len(sides[0])} source files but {len(sides[1])} target files")
        return list(zip(*sides, strict=True))
    return [(file,) for file in _files(path, key, config)]


def _files(path: str, key: str, config: DataConfig) -> list[Path]:
    if is_url(path):
        return [download(path, cache_folder(config, "downloads"))]
    path = str(expanded(path))
    if Path(path).is_file():
        return [Path(path)]
    if Path(path).is_dir():
        raise DataError(f"{key}={path}: is a folder; only data.path may be one")
    if any(character in path for character in "*?["):
        found = sorted(
            Path(name)
            for name in glob.iglob(path, recursive=True)  # noqa: PTH207 - Path.glob refuses absolute patterns
            if Path(name).is_file()
        )
        if found:
            return found
        raise DataError(f"{key}={path}: no file matches")
    raise DataError(f"{key}={path}: no such file or folder (looked in {Path.cwd()})")


def _split_of(name: str) -> str | None:
    words = re.split(r"[._\-]", name.lower())
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), None)


def _discover(folder: Path, config: DataConfig, task: str) -> dict[str, list[tuple[Path, ...]]]:
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    entries: list[tuple[Path, ...]] = []
    if task == "translate":
        entries = [
            (file, other)
            for file in files
            if file.suffix == f".{config.source_column}"
            and (other := file.with_suffix(f".{config.target_column}")).is_file()
        ]
    if not entries:
        kinds: dict[str, list[tuple[Path, ...]]] = {}
        for file in files:
            if file.suffix.lower() in _FORMATS and file.stem.lower() not in _NO_DATA:
                kinds.setdefault(_format((file,), task), []).append((file,))
        order = ("tsv", "csv", "json", "parquet") if task == "translate" else ("text", "json", "parquet", "csv", "tsv")
        entries = next((kinds[kind] for kind in order if kind in kinds), [])
    if not entries:
        raise DataError(_nothing_found(folder, files, task))
    splits: dict[str, list[tuple[Path, ...]]] = {}
    for entry in entries:
        splits.setdefault(_split_of(entry[0].name) or "", []).append(entry)
    if set(splits) == {""}:
        return {"train": entries}
    if "train" not in splits:
        raise DataError(f"data.path={folder}: no training file; name it train.*, or give data.path one file")
    splits.pop("", None)
    return splits


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
