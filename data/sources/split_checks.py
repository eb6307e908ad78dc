"""Find splits that mislead: held-out rows that also stand in the training data, or that are all longer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from data.config import DataConfig
from data.sources.text_files import TextFile

if TYPE_CHECKING:
    from datasets import Dataset

_FEW = 100
"""Rows below which a split is compared line by line: its rows are whole documents."""
_LONG_LINE = 20  # characters of a line that is hardly the same by chance
_LINE = re.compile(rf"[^\n]{{{_LONG_LINE},}}")
_MANY_LINES = 0.1
_SORTED = 0.95
"""Share of comparisons with training rows in which held-out rows are longer, or shorter, if the data are sorted."""
_ENOUGH = 20  # rows whose lengths are compared


def split_notes(splits: dict[str, Dataset], config: DataConfig) -> list[str]:
    """Return a line for each held-out split with rows that also stand in the training data, and for validation rows
    that are longer (or shorter) than nearly all training rows, as those of a sorted file are. Reads all rows."""
    if "train" not in splits:  # a test file alone
        return []
    held = {split: _Rows(rows, len(rows) < _FEW) for split, rows in splits.items() if split != "train"}
    lines = any(rows.lines for rows in held.values())
    train = _Rows(splits["train"], lines, {unit for rows in held.values() for unit in (*rows.units, *rows.lines)})
    notes: list[str] = []
    for split, rows in held.items():
        what = "pairs" if "source" in splits[split].column_names else "rows"
        double = sum(unit in train.found for unit in rows.units)
        repeated = sum(line in train.found for line in rows.lines)
        if double:
            has_own_split = what != "pairs" or getattr(config, f"{split}_path")
            fix = "" if has_own_split else "; data.split=components splits off pairs that do not"
            total = f"{len(rows.units):,} {what}"
            notes.append(f"{split}: {double:,} of {total} also stand in the training data, and its scores flatter{fix}")
        elif rows.lines and repeated >= _MANY_LINES * len(rows.lines):
            part = f"{100 * repeated / len(rows.lines):.0f} % of its longer lines"
            notes.append(f"{split}: {part} also stand in the training data, and its scores flatter")
    both = zip(train.lengths, held["valid"].lengths, strict=True) if "valid" in held else ()
    shares = [_longer(*lengths) for lengths in both]
    share = max(shares, key=lambda share: abs(share - 0.5), default=0.5)
    if max(share, 1 - share) >= _SORTED:
        what = "pairs" if "source" in splits["valid"].column_names else "rows"
        size = "longer" if share > 0.5 else "shorter"
        has_own_split = config.valid_path or config.valid_split
        fix = "" if has_own_split else "; if they are split off data sorted by length, set data.split=random"
        notes.append(
            f"valid: its {what} are {size} than the training {what} ({100 * max(share, 1 - share):.0f} %){fix}"
        )
    return notes


def same_files(files: Mapping[str, Iterable[Iterable[TextFile]]]) -> list[str]:
    """Return notes on files that are in the training data too; of streamed rows, no more is known."""
    train = {file.sha256 for entry in files.get("train", ()) for file in entry}
    double = {
        split: [file.path for entry in entries for file in entry if file.sha256 in train]
        for split, entries in files.items()
        if split != "train"
    }
    return [
        f"{split}: {paths[0]} also stands in the training data, and its scores flatter"
        for split, paths in double.items()
        if paths
    ]


class _Rows:
    """Hashes of the rows of a split, and of the longer lines in them if `lines`; of the training rows only those that
    are `wanted` are kept, in `found`."""

    def __init__(self, rows: Dataset, lines: bool, wanted: set[int] | None = None) -> None:
        self.units: list[int] = []
        self.lines: list[int] = []
        self.found: set[int] = set()
        names = ["source", "target"] if "source" in rows.column_names else ["text"]
        sizes = [np.zeros((len(names), 0), np.int32)]
        for batch in rows.select_columns(names).with_format("arrow").iter(batch_size=1000):
            columns = [batch[name].to_pylist() for name in names]
            units = [hash(row) for row in zip(*columns, strict=True)]
            sizes.append(np.array([[len(text) for text in column] for column in columns], np.int32))
            inner = _long_lines(columns) if lines else iter(())
            if wanted is None:
                self.units += units
                self.lines += inner
            else:
                self.found.update(wanted.intersection(units), (line for line in inner if line in wanted))
        self.lengths = np.concatenate(sizes, axis=1)
        """Characters of each row, of one or two sides, [sides, rows]."""


def _long_lines(columns: Iterable[Iterable[str]]) -> Iterator[int]:
    """Yield hashes of the longer lines, one at a time: a document may have millions."""
    for text in chain.from_iterable(columns):
        for line in _LINE.finditer(text):
            yield hash(line[0])


def _longer(train: np.ndarray, held: np.ndarray) -> float:
    """Return the share of pairs of a held-out and a training row in which the former is longer; equal ones count half,
    as do all if there are few rows."""
    if min(len(train), len(held)) < _ENOUGH:
        return 0.5
    train = np.sort(train)
    below = np.searchsorted(train, held, "left") + np.searchsorted(train, held, "right")
    return float(below.mean() / 2 / len(train))
