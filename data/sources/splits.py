"""Split validation and test data off the training data."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data.config import DataConfig
from data.errors import DataError

if TYPE_CHECKING:
    from datasets import Dataset


def fractions(config: DataConfig, present: Sequence[str]) -> dict[str, float]:
    """Return the fractions of the training data to split off, for splits without files."""
    requested = {"valid": config.valid_fraction, "test": config.test_fraction}
    return {split: share for split, share in requested.items() if split not in present and share > 0}


def contiguous_bounds(total: int, shares: dict[str, float]) -> dict[str, tuple[int, int]]:
    """Return [start, end) of each split in `total` units of text: train, then validation, then test.

    The training part is int(total x (1 - shares)), as in nanoGPT: 90 % of tinyshakespeare is 1,003,854 characters.
    """
    bounds = {}
    start, left = 0, sum(shares.values())
    for split, share in {"train": 1 - left, **shares}.items():
        left -= share if split != "train" else 0
        end = int(total * (1 - left)) if left > 1e-9 else total
        bounds[split] = start, end
        start = end
    return bounds


def split_rows(rows: Dataset, config: DataConfig, shares: dict[str, float]) -> dict[str, Dataset]:
    """Split rows by `config.split`. Raises DataError if a split would be empty."""
    if not shares:
        return {"train": rows}
    if config.split == "components":
        parts = component_split(_texts(rows, "source"), _texts(rows, "target"), shares, config.split_seed)
    else:
        order = np.arange(len(rows))
        if config.split == "random":
            order = np.random.default_rng(config.split_seed).permutation(len(rows))
        parts = {
            split: np.sort(order[start:end]) for split, (start, end) in contiguous_bounds(len(rows), shares).items()
        }
    for split, chosen in parts.items():
        if len(chosen) == 0:
            raise DataError(
                f"data.{'valid' if split == 'train' else split}_fraction: {len(rows)} rows are too few to split off "
                f"{', '.join(shares)} (nothing is left for {split}); give data.valid_path, "
                "or for running text set data.rows=paragraph"
            )
    return {split: rows.select(chosen) for split, chosen in parts.items()}


def _texts(rows: Dataset, column: str) -> Iterator[str]:
    for batch in rows.select_columns([column]).iter(batch_size=10_000):
        yield from batch[column]


def normalised(sentence: str) -> str:
    """Normalise character width, case and spacing and strip final punctuation, so that near-duplicates compare
    equal."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    return re.sub(r"[\W_]+$", "", re.sub(r"\s+", " ", text.strip())) or text.strip()


def component_split(
    sources: Iterable[str], targets: Iterable[str], shares: dict[str, float], seed: int
) -> dict[str, np.ndarray]:
    """Return the row numbers of each split, with no sentence of either language in two splits.

    Pairs that share a sentence are connected; connected components are assigned at random until a split has its
    fraction. (In Tatoeba, an English sentence has many translations, as does a Japanese sentence: a random split of the
    lines leaks training sentences into the test split.) Memory holds a hash of every sentence, not the sentences.
    """
    parent: list[int] = []

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for side in (sources, targets):
        first: dict[bytes, int] = {}
        for row, sentence in enumerate(side):
            if row == len(parent):
                parent.append(row)
            key = hashlib.blake2b(normalised(sentence).encode(), digest_size=16).digest()
            parent[root(row)] = root(first.setdefault(key, row))
    component = np.array([root(row) for row in range(len(parent))])
    _, component, sizes = np.unique(component, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    owner = np.full(len(sizes), "train", dtype="<U5")
    for split, share in shares.items():
        room = round(share * len(parent))
        for index in order[owner[order] == "train"]:
            if sizes[index] <= room:  # a component that is too large for a split stays in training
                owner[index] = split
                room -= sizes[index]
            if room == 0:
                break
    return {split: np.flatnonzero(owner[component] == split) for split in ("train", *shares)}
