"""Resolve `data.path` to the files of each split: folders, archives, globs, URLs, aligned files."""

from __future__ import annotations

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from configs.program import expanded
from data.cache_folders import cache_folder, cached_folder
from data.config import DataConfig
from data.errors import DataError
from data.sources.compressed import is_archive, open_bytes, plain_name, unpack
from data.sources.download import download, is_url
from data.sources.formats import markup
from data.sources.paths.aligned_files import partners
from data.sources.paths.not_data import check_kind, foreign
from data.sources.text_files import scan

SPLIT_NAMES = dict.fromkeys(("train", "training"), "train") | {"test": "test"}
SPLIT_NAMES |= dict.fromkeys(("valid", "validation", "val", "dev"), "valid")
"""The split that a word in a file name, or a split name of the hub, refers to."""

Entries = list[tuple[Path, ...]]
"""Entries of one file, or of two files (source, target) aligned line by line."""

_FORMATS = {".tsv": "tsv", ".csv": "csv", ".parquet": "parquet", ".txt": "text", ".text": "text"}
_FORMATS |= dict.fromkeys((".jsonl", ".ndjson", ".json", ".jsonlines", ".jl"), "json")
_FORMATS |= markup.FORMATS
_NO_DATA = {"readme", "license", "licence", "copying", "sources"}
_LONGEST_LINE = 1 << 20  # bytes of a first line that is tried as JSON
_FIRST_LINES = 20
"""Lines that show a table by their tabs."""
_LOOKED_AT = 1000
"""Files below a folder without data that are looked at to name the sub-folder that has them."""


@dataclass(frozen=True)
class Located:
    """Files of each split."""

    format: str
    """`text`, `tsv`, `csv`, `json`, `parquet`, `aligned`, `translations` (TMX, XLIFF, PO) or
    `subtitles` (two files)."""

    splits: dict[str, Entries]

    notes: list[str]
    """Notes on the choice of files, one line each."""


def locate(config: DataConfig, task: str) -> Located:
    """Find the files of a `text` or `pairs` source. Raises DataError naming the key if there are none, or if they are
    of a kind that is not read."""
    if not (config.path or config.valid_path or config.test_path):
        raise DataError(f"data.path is not set: give a file, folder, glob or URL for data={config.source}")
    notes: list[str] = []
    candidates: list[Path] = []
    splits: dict[str, Entries] = {}
    if config.path:  # else a validation or test file alone
        candidates, splits = _named_splits(config.path, config, task, notes)
    for split, path in (("valid", config.valid_path), ("test", config.test_path)):
        if path:
            splits[split] = _entries(path, f"data.{split}_path", config, task, notes)
    if candidates and config.path:
        notes += _leave_out_held_out(config.path, candidates, splits)
    formats = {_format(entry, task): entry for entries in splits.values() for entry in entries}
    for entries in splits.values():
        for entry in entries:
            _check(entry, _format(entry, task), config)
        if len(entries) == 1 and _format(entries[0], task) == "tsv":
            _check_alone(entries[0][0], config)
    if len(formats) > 1:
        kinds = ", ".join(f"{kind} ({entry[0].name})" for kind, entry in sorted(formats.items()))
        raise DataError(f"data.path: the files are of different kinds: {kinds}; name files of one kind")
    if "text" in formats and "train" in splits:
        notes += _first_line_note(splits["train"][0][0])
    ((kind, entry),) = formats.items()
    markup.check_readable(kind, entry, task)
    return Located(kind, splits, notes)


def _named_splits(path: str, config: DataConfig, task: str, notes: list[str]) -> tuple[list[Path], dict[str, Entries]]:
    """Return what is in a folder, or the files that match a glob (nothing for a single file or archive), and the
    entries of each split by the names of the files."""
    place, unpacked = expanded(path), cache_folder(config, "unpacked")
    if place.is_dir():
        candidates = sorted(child for child in place.iterdir() if not child.name.startswith("."))
        files = [file for file in candidates if file.is_file()]
        entries = _chosen(files, config, task, notes)
        for file in [] if entries else filter(_is_archive, files):
            entries += _chosen(_content(file, config), config, task, notes)
        if not entries:
            raise DataError(_nothing_found(place, files, config, task))
        return candidates, _by_name(path, entries, (place, unpacked))
    sides = _sides(path) if config.source == "pairs" else None
    if sides and all(is_url(name) or expanded(name).is_file() for name in sides):
        return [], {"train": _entries(path, "data.path", config, task, notes)}
    if is_url(path) or place.is_file():
        (file,) = _files(path, "data.path", config)
        if not _is_archive(file):
            return [], {"train": [(file,)]}
        return [], _by_name(path, _archived(file, config, task, notes), (_unpacked(file, config),))
    entries = _entries(path, "data.path", config, task, notes)
    patterns = sides or (path,)
    folders = _fixed_part(expanded(patterns[0])), unpacked
    splits = _by_name(path, entries, folders, chosen=True)
    if len(splits) > 1:
        notes.append(f"data.path={path}: assigned by their names: {_shown(splits)}")
    return [file for pattern in patterns for file in _files(pattern, "data.path", config)], splits


def _leave_out_held_out(path: str, candidates: list[Path], splits: dict[str, Entries]) -> list[str]:
    """Take the files of the other splits from those of training, which a folder or a glob has found, and return notes
    on files that are not used and on held-out names that are. Raises DataError if no training file is left."""
    held_out = {file.resolve() for split in splits if split != "train" for entry in splits[split] for file in entry}
    splits["train"] = [entry for entry in splits["train"] if entry[0].resolve() not in held_out]
    if not splits["train"]:
        raise DataError(f"data.path={path}: no file is left to train on besides data.valid_path and data.test_path")
    notes = _unused(path, candidates, splits)
    odd = [entry[0].name for entry in splits["train"] if _split_of(entry[0].name) in ("valid", "test")]
    if odd and len(splits["train"]) > 1:
        fix = "data.valid_path and data.test_path hold files out"
        notes.append(f"data.path={path}: trains on {_listed(odd)} too; {fix}")
    return notes


def _is_archive(file: Path) -> bool:
    """Whether a file is an archive of files, and not a document such as .docx, which is a zip file too."""
    return is_archive(file) and foreign(file, text=False) is None


def _unpacked(file: Path, config: DataConfig) -> Path:
    """Return the folder in the cache with the content of an archive."""
    content = scan(file, cache_folder(config, "scans"), text=False).sha256
    return cached_folder(cache_folder(config, "unpacked"), f"{file.name[-60:]}-{content[:16]}", partial(unpack, file))


def _content(file: Path, config: DataConfig) -> list[Path]:
    return sorted(path for path in _unpacked(file, config).rglob("*") if path.is_file())


def _archived(file: Path, config: DataConfig, task: str, notes: list[str]) -> Entries:
    """Return the entries in an archive. Raises DataError if there are none."""
    files = _content(file, config)
    if entries := _chosen(files, config, task, notes):
        return entries
    raise DataError(_nothing_found(file, files, config, task))


def _format(entry: tuple[Path, ...], task: str) -> str:
    kind = _kind(entry[0]) or "text"
    if len(entry) == 2:
        return kind if kind in markup.FORMATS.values() else "aligned"
    # Pairs in a .txt file are tab-separated (as Anki and Tatoeba export them).
    return "tsv" if kind == "text" and task == "translate" else kind


def _kind(file: Path) -> str | None:
    """Return what a file is by its name, None for an unknown ending."""
    name = plain_name(file)
    if name.suffix.lower() == ".txt" and Path(name.stem).suffix.lower() in (".json", ".jsonl"):
        return "json"
    return _FORMATS.get(name.suffix.lower())


def _check(entry: tuple[Path, ...], kind: str, config: DataConfig) -> None:
    """Raise DataError for a file that is of another kind than its name says, and for settings that have no use."""
    for file in entry:
        check_kind(file, text=kind in ("text", "tsv", "csv", "json", "aligned"))
    name = entry[0].name
    if kind == "text" and config.text_column != DataConfig.text_column:
        raise DataError(
            f"data.text_column={config.text_column}: {name} is read as running text, which has no columns; remove it,"
            " or name the file .jsonl, .csv, .tsv or .parquet if it is one"
        )


def _check_alone(file: Path, config: DataConfig) -> None:
    """Raise DataError if a file that would be read as a table is one of two aligned files."""
    if _kind(file) in (None, "text"):
        others = [path for path in file.parent.iterdir() if path.is_file()]
        for sides in partners(others, config)[0]:
            if file in sides:
                raise DataError(f"{file}: is one of two aligned files; give both: {sides[0]},{sides[1]}")


def _first_line_note(file: Path) -> list[str]:
    """Return a note if a text file begins with JSON, a tag of WikiExtractor or rows of a table."""
    with suppress(OSError, ValueError, RecursionError), open_bytes(file) as stream:
        begin = [stream.readline(_LONGEST_LINE) for _ in range(_FIRST_LINES)]
        first = begin[0]
        if first.startswith(b"<doc id="):
            way = "grep -v -e '^<doc ' -e '^</doc>' leaves them out, and WikiExtractor --json writes none"
            return [f"{file.name}: has lines <doc …>, which are read as text; {way}"]
        widths = {max(line.lstrip().count(b"\t"), line.count(b" +++$+++ ")) for line in begin}  # not of indented code
        if len(widths) == 1 and widths != {0}:
            way = "to read one of its columns, name it .tsv and set data.text_column to its number"
            return [f"{file.name}: looks like a table and is read as text; {way}"]
        if re.match(rb"([\w.$ ]+=)? *[\[{]\s*$", first):
            way = "to read its columns, name it .json, without what stands around the JSON"
            return [f"{file.name}: looks like JSON and is read as text; {way}"]
        if isinstance(json.loads(first), dict):
            name = f"{plain_name(file).stem}.jsonl"
            return [f"{file.name}: has JSON objects and is read as text; to read one of their columns, name it {name}"]
    return []


def _entries(path: str, key: str, config: DataConfig, task: str, notes: list[str]) -> Entries:
    names = _sides(path) if config.source == "pairs" else None
    if names is not None:
        sides = [_side(name, key, config) for name in names]
        if len(sides[0]) != len(sides[1]):
            raise DataError(f"{key}={path}: {len(sides[0])} source files but {len(sides[1])} target files")
        return list(zip(*sides, strict=True))
    files = _files(path, key, config)
    if task == "translate" and len(files) > 1 and (aligned := _aligned(files, config, notes)):
        return aligned
    return [
        entry for file in files for entry in (_archived(file, config, task, notes) if _is_archive(file) else [(file,)])
    ]


def _side(path: str, key: str, config: DataConfig) -> list[Path]:
    """Return the files of one side of aligned files."""
    entries = [
        _archived(file, config, "gpt", []) if _is_archive(file) else [(file,)] for file in _files(path, key, config)
    ]
    return [entry[0] for entry in chain.from_iterable(entries)]


def _aligned(files: list[Path], config: DataConfig, notes: list[str]) -> Entries:
    """Return the pairs of files that belong together by their names; a note says which languages were taken."""
    pairs, sides = partners(files, config)
    if pairs and sides != [config.source_column, config.target_column]:
        other = f"(the other way: data.source_column={sides[1]} data.target_column={sides[0]})"
        if not any(note.endswith(other) for note in notes):
            notes.append(f"source: {pairs[0][0].name}, target: {pairs[0][1].name} {other}")
    return [*pairs]


def _sides(path: str) -> tuple[str, str] | None:
    """Return the two names of a list of aligned files; None for a single name, which may also contain commas.

    A list is split at the comma that has a file, a URL or a match on both sides.
    """
    if expanded(path).exists():
        return None
    cuts = [(path[: comma.start()].strip(), path[comma.end() :].strip()) for comma in re.finditer(",", path)]
    matches = [cut for cut in cuts if all(is_url(name) or expanded(name).is_file() or _matches(name) for name in cut)]
    if matches:
        return matches[0]
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
    if matches := _matches(path):
        return matches
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


def _fixed_part(pattern: Path) -> Path:
    """Return the folder in a glob that exists, which is not a part of the pattern: `books [2]/*.txt`."""
    return next((parent for parent in pattern.parents if parent.is_dir()), Path())


def _matches(pattern: str) -> list[Path]:
    """Return the files that match a glob, sorted."""
    place = expanded(pattern)
    folder = _fixed_part(place)
    names = glob.iglob(str(place.relative_to(folder)), root_dir=folder, recursive=True)  # noqa: PTH207 - finds no hidden files
    return sorted(folder / name for name in names if (folder / name).is_file())


def _split_of(name: str) -> str | None:
    words = re.split(r"[._\-/]", name.lower())
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), None)


def _chosen(files: list[Path], config: DataConfig, task: str, notes: list[str]) -> Entries:
    """Return the files to read among those of a folder: pairs of aligned files, or all of one kind."""
    if task == "translate" and (aligned := _aligned(files, config, notes)):
        return aligned
    kinds: dict[str, Entries] = {}
    for file in files:
        if _kind(file) and plain_name(file).stem.lower() not in _NO_DATA:
            kinds.setdefault(_format((file,), task), []).append((file,))
    order = ("tsv", "csv", "json", "parquet") if task == "translate" else ("text", "json", "parquet", "csv", "tsv")
    return next((kinds[kind] for kind in (*order, *markup.FORMATS.values()) if kind in kinds), [])


def _by_name(path: str, entries: Entries, folders: Iterable[Path], chosen: bool = False) -> dict[str, Entries]:
    """Assign files to splits by their names below one of the folders. chosen: the user has named all of them, so that
    those without a split are trained on."""
    splits: dict[str, Entries] = {}
    for entry in entries:
        inside = next(entry[0].relative_to(folder) for folder in folders if entry[0].is_relative_to(folder))
        splits.setdefault(_split_of(inside.name) or _split_of(str(inside.parent)) or "", []).append(entry)
    if set(splits) == {""} or (chosen and "train" not in splits):
        return {"train": entries}
    if "train" not in splits:
        raise DataError(f"data.path={path}: no training file; name it train.*, or give data.path one file")
    unnamed = splits.pop("", [])
    splits["train"] += unnamed if chosen else []
    return splits


def _unused(path: str, candidates: list[Path], splits: dict[str, Entries]) -> list[str]:
    """Return a note on the files and folders that belong to no split."""
    used = {os.path.realpath(file) for entries in splits.values() for entry in entries for file in entry}
    others = [
        place.name + "/" * place.is_dir()
        for place in candidates
        if os.path.realpath(place) not in used and place.stem.lower() not in _NO_DATA
    ]
    note = f"data.path={path}: uses {_shown(splits)}. Not used: {_listed(others)}"
    return [f"{note}; to choose others, set data.path to a glob"] if others else []


def _shown(splits: dict[str, Entries]) -> str:
    return "; ".join(f"{split}: {_listed([entry[0].name for entry in entries])}" for split, entries in splits.items())


def _listed(names: list[str]) -> str:
    """List the first few names and the number of the rest."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _nothing_found(place: Path, files: list[Path], config: DataConfig, task: str) -> str:
    """Return what to do with a folder or an archive that has no data files."""
    where = f"data.path={place}"
    if task == "translate" and len(sides := partners(files, config)[1]) > 1:
        chosen = f"data.source_column={sides[0]} data.target_column={sides[1]}"
        return f"{where}: has aligned files named by {', '.join(sides)}; choose two of these, for example: {chosen}"
    for file in files[:_LOOKED_AT]:
        if reason := foreign(file):
            return f"{where}: has no data files, and {file.name} {reason}"
    inside = [
        file
        for file in islice(place.rglob("*"), _LOOKED_AT * place.is_dir())
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(place).parts)
    ]
    aligned = [pair[0] for pair in partners(inside, config)[0]] if task == "translate" else []
    folders = dict.fromkeys(file.parent for file in (*filter(_kind, inside), *aligned) if file.parent != place)
    if folders:
        card = f", or data=hub data.path={place}" if (place / "README.md").is_file() else ""
        names = [str(folder.relative_to(place)) for folder in folders]
        return (
            f"{where}: has its data in sub-folders ({_listed(names)}), which are not searched; set"
            f" data.path={next(iter(folders))}{card}, or a glob: data.path='{place}/**/*.*'"
        )
    if archives := [file.name for file in files[:_LOOKED_AT] if _is_archive(file)]:
        if place.is_dir():
            return f"{where}: has no data files, and its archives have none either ({_listed(archives)})"
        return f"{where}: has archives inside ({_listed(archives)}), which are not unpacked; unpack it, give the folder"
    endings = Counter(file.suffix for file in inside if file.suffix and task == "gpt" and foreign(file) is None)
    for ending, number in endings.most_common(1):
        fix = f"to read them as text, set data.path='{place}/**/*{ending}'"
        return f"{where}: has no data files (.txt, .jsonl, .csv, …), but {number:,} named *{ending}; {fix}"
    if not files:
        others = [path.name for path in place.iterdir()] if place.is_dir() else []
        empty = f"the {'folder' if place.is_dir() else 'archive'} is empty"
        return f"{where}: " + (f"has only folders ({_listed(others)}), without data" if others else empty)
    kinds = ".tsv, .csv, .jsonl, .parquet" + (
        " or two aligned files: train.en, train.ja" if task == "translate" else " or .txt"
    )
    return f"{where}: no data files ({kinds}); it has: {_listed([file.name for file in files])}"
