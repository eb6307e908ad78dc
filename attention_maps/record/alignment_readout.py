"""Word alignments read out of cross-attention, and their notation.

Shapes: Q queries (rows; of a translation the target), K keys (columns; the source).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from attention_maps.record.chosen_map import ChosenMap

Readout = Literal["argmax", "mutual", "grown", "threshold"]
"""`argmax`: every query with the key it attends to most. `mutual`: of these, the pairs in which the query is also the
one that attends most to that key. `grown`: these, and pairs beside them that are strongest from one side (grow-diag,
Koehn et al. 2003). `threshold`: every pair of at least a given weight."""


def alignment(chosen: ChosenMap, readout: Readout = "argmax", threshold: float = 0.5) -> list[tuple[int, int]]:
    """Links of a whole map: sorted pairs (key, query), which for a translation are (source, target) positions.

    Special tokens take no part: the largest weight is sought among the others.
    """
    words = [row for row, special in enumerate(chosen.queries.special) if not special]
    others = [column for column, special in enumerate(chosen.keys.special) if not special]
    pairs = links(chosen.matrix[np.ix_(words, others)], readout, threshold)
    return sorted((others[column], words[row]) for row, column in pairs)


def links(weights: np.ndarray, readout: Readout, threshold: float = 0.5) -> list[tuple[int, int]]:
    """(row, column) of the linked pairs of a map [Q,K]; never one of weight 0 or NaN. The first of equals wins."""
    weights = np.nan_to_num(weights, nan=0.0)
    if not weights.size:
        return []
    linked = weights >= threshold if readout == "threshold" else READOUTS[readout](weights)
    linked &= weights > 0
    return [(int(row), int(column)) for row, column in np.argwhere(linked)]


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """ "0-0 1-2": source-target, counted from 0, as Pharaoh, GIZA++ and fast_align write it."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def mutual(weights: np.ndarray) -> np.ndarray:
    """bool like `weights` [...,Q,K]: the pairs whose weight is the largest in its row and in its column."""
    return _best(weights, -1) & _best(weights, -2)


def argmax(weights: np.ndarray) -> np.ndarray:
    """bool like `weights` [...,Q,K]: every query with the key it attends to most."""
    return _best(weights, -1)


def grown(weights: np.ndarray) -> np.ndarray:
    """bool like `weights` [...,Q,K]: the mutual pairs, and those of either side that touch them (grow-diag, Koehn et
    al. 2003)."""
    linked, either = mutual(weights), _best(weights, -1) | _best(weights, -2)
    flat_links, flat_either = linked.reshape(-1, *linked.shape[-2:]), either.reshape(-1, *linked.shape[-2:])
    for links, candidates in zip(flat_links, flat_either, strict=True):
        _grow(links, candidates)
    return linked


def _grow(links: np.ndarray, candidates: np.ndarray) -> None:
    """Add in place, while there are any, candidates that touch a link and whose row or column has none yet."""
    while True:
        padded = np.pad(links, 1)
        beside = sum(
            padded[1 + a : padded.shape[0] - 1 + a, 1 + b : padded.shape[1] - 1 + b]
            for a in (-1, 0, 1)
            for b in (-1, 0, 1)
        )
        fitting = np.argwhere(candidates & ~links & (beside > 0))
        added = False
        for row, column in fitting:
            if not links[row].any() or not links[:, column].any():
                links[row, column] = added = True
        if not added:
            return


def _best(weights: np.ndarray, axis: int) -> np.ndarray:
    best = np.zeros(weights.shape, dtype=bool)
    np.put_along_axis(best, weights.argmax(axis=axis, keepdims=True), True, axis)
    return best


READOUTS = {"argmax": argmax, "mutual": mutual, "grown": grown}
"""Functions that read links between words out of a map."""
