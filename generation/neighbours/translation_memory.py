"""A translation memory: training pairs, found by the similarity of their source sentences."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configs.errors import UserError
from configs.program import expanded
from data.config import DataConfig
from data.errors import DataError
from data.sources.files import locate
from data.sources.sources import load
from generation.config import NeighbourConfig

REMEMBERED = 200_000
"""Maximum number of training pairs in the translation memory: 2 ms per sentence on one core."""


class TranslationMemory:
    """Finds training pairs by the Jaccard similarity of the sets of lower-cased words of two sources."""

    def __init__(self, sources: list[str], targets: list[str]) -> None:
        self.sources, self.targets = sources, targets
        postings: defaultdict[str, list[int]] = defaultdict(list)
        sizes = []
        for row, source in enumerate(sources):
            distinct = words(source)
            sizes.append(len(distinct))
            for word in distinct:
                postings[word].append(row)
        self.postings = {word: np.array(rows, dtype=np.int64) for word, rows in postings.items()}
        self.sizes = np.array(sizes)

    @classmethod
    def of_rows(cls, rows: Any, reverse: bool = False) -> TranslationMemory:
        """Remember the rows of a Dataset with columns `source` and `target`, or `REMEMBERED` evenly spaced ones;
        reverse: to translate from target to source."""
        remembered = rows.select(range(0, len(rows), -(-len(rows) // REMEMBERED)))
        return cls(*sides(remembered, reverse))

    def __len__(self) -> int:
        return len(self.targets)

    def similarities(self, source: str) -> NDArray[np.float64]:
        """Return the similarity of a sentence to each training source, from 0 to 1."""
        query = words(source)
        rows = [self.postings[word] for word in query if word in self.postings]
        shared = np.bincount(np.concatenate(rows), minlength=len(self.sizes)) if rows else np.zeros(len(self.sizes))
        return shared / (self.sizes + len(query) - shared)

    def translate(self, source: str) -> str:
        """Return the target of the nearest training source; ties go to the first."""
        return self.targets[int(np.argmax(self.similarities(source)))]

    def nearest(self, source: str, count: int) -> NDArray[np.int64]:
        """Return the row numbers of the `count` most similar pairs, the most similar first; ties go to the first.

        Pairs without a common word are left out.
        """
        similarities = self.similarities(source)
        rows = np.flatnonzero(similarities)
        if len(rows) > count:  # sort only the best and their ties
            rows = rows[similarities[rows] >= -np.partition(-similarities[rows], count - 1)[count - 1]]
        return rows[np.argsort(-similarities[rows], kind="stable")][:count]


def sides(rows: Any, reverse: bool = False) -> tuple[list[str], list[str]]:
    """Return the sentences of the rows to translate from and to: `source` and `target`, or, in reverse, `target` and
    `source`."""
    source, target = rows["source"][:], rows["target"][:]
    return (target, source) if reverse else (source, target)


def load_memory(data: DataConfig, config: NeighbourConfig, reverse: bool = False) -> TranslationMemory | None:
    """Load the training pairs of a run with these data settings, or those at `config.path`, from which validation
    and test pairs are split off as in the training; None without retrieval.

    Raises UserError if they are not there.
    """
    if not config.sentences:
        return None
    if config.path is not None:
        if data.source == "primer":
            raise UserError(f"neighbours.path={config.path}: the run was trained on the built-in corpus, without files")
        separate = separate_splits(data)  # which were not split off the training pairs
        data = replace(
            data,
            path=config.path,
            valid_path=None,
            test_path=None,
            valid_fraction=0.0 if "valid" in separate else data.valid_fraction,
            test_fraction=0.0 if "test" in separate else data.test_fraction,
        )
    try:
        return TranslationMemory.of_rows(load(data, "translate", needs_valid=False)["train"], reverse)
    except DataError as error:
        place = "" if config.path else "; if they have moved, set neighbours.path"
        reason = f"cannot read the training pairs to retrieve from: {'; '.join(error.args)}{place}"
        raise UserError(f"neighbours.sentences={config.sentences}: {reason}") from error


def separate_splits(data: DataConfig) -> set[str]:
    """Return the splits that had files of their own in the training: `data.valid_path` and `data.test_path`, and those
    found in the folder `data.path`, if it is still there."""
    separate = {split for split, path in (("valid", data.valid_path), ("test", data.test_path)) if path}
    if data.source == "pairs" and data.path:
        with suppress(DataError, OSError):
            if expanded(data.path).is_dir():
                separate.update(locate(replace(data, valid_path=None, test_path=None), "translate").splits)
    return separate


def words(sentence: str) -> set[str]:
    """Return the lower-cased words without punctuation."""
    return {word for raw in sentence.lower().split() if (word := raw.strip(".,!?;:\"'()"))} or {sentence}
