"""Extract word alignments from cross-attention and write them in Pharaoh format.

Shapes: Q queries (rows: the target of a translation), K keys (columns: the source).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from attention_maps.record.chosen_map import ChosenMap

Readout = Literal["argmax", "mutual", "grown", "threshold"]
"""`argmax`: link every query to the key with the largest weight. `mutual`: keep the links that are the argmax in both
directions. `grown`: add adjacent pairs that are the argmax in one direction (grow-diag, Koehn et al. 2003).
`threshold`: link every pair of at least a given weight."""


def alignment(chosen: ChosenMap, readout: Readout = "argmax", threshold: float = 0.5) -> list[tuple[int, int]]:
    """Extract the links of a map as sorted pairs (key, query), which are (source, target) positions for a translation.
    Special tokens are excluded before the argmax."""
    words = [row for row, special in enumerate(chosen.queries.special) if not special]
    others = [column for column, special in enumerate(chosen.keys.special) if not special]
    pairs = links(chosen.matrix[np.ix_(words, others)], readout, threshold)
    return sorted((others[column], words[row]) for row, column in pairs)


def links(weights: np.ndarray, readout: Readout, threshold: float = 0.5) -> list[tuple[int, int]]:
    """Extract the linked (row, column) pairs of a map [Q,K]. Weights of 0 or NaN are never linked; of several equal
    weights, the first one is linked."""
    weights = np.nan_to_num(weights, nan=0.0)
    if not weights.size:
        return []
    linked = weights >= threshold if readout == "threshold" else READOUTS[readout](weights)
    linked &= weights > 0
    return [(int(row), int(column)) for row, column in np.argwhere(linked)]


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Format links as in Pharaoh, GIZA++ and fast_align: "0-0 1-2", source-target, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def mutual(weights: np.ndarray) -> np.ndarray:
    """Return the mask [...,Q,K] bool of the pairs whose weight is the largest in both row and column."""
    return _best(weights, -1) & _best(weights, -2)


def argmax(weights: np.ndarray) -> np.ndarray:
    """Return the mask [...,Q,K] bool of the largest weight in each row."""
    return _best(weights, -1)


def grown(weights: np.ndarray) -> np.ndarray:
    """Return a bool mask [...,Q,K] of pairs: the mutual ones, plus adjacent pairs that are the argmax in one direction
    (grow-diag, Koehn et al. 2003)."""
    linked, either = mutual(weights), _best(weights, -1) | _best(weights, -2)
    for place in np.ndindex(weights.shape[:-2]):
        _grow(linked[place], either[place])
    return linked


def _grow(links: np.ndarray, candidates: np.ndarray) -> None:
    """Add, in place, candidates that are adjacent to a link and whose own row or column has no link, until none is
    left."""
    padded = np.zeros((links.shape[0] + 2, links.shape[1] + 2), dtype=bool)
    while True:
        padded[1:-1, 1:-1] = links
        near = padded[:-2] | padded[1:-1] | padded[2:]
        adjacent = near[:, :-2] | near[:, 1:-1] | near[:, 2:]
        added = False
        for row, column in np.argwhere(candidates & ~links & adjacent):
            if not links[row].any() or not links[:, column].any():
                links[row, column] = added = True
        if not added:
            return


def _best(weights: np.ndarray, axis: int) -> np.ndarray:
    best = np.zeros(weights.shape, dtype=bool)
    np.put_along_axis(best, weights.argmax(axis=axis, keepdims=True), True, axis)
    return best


READOUTS = {"argmax": argmax, "mutual": mutual, "grown": grown}
"""Functions that extract links from a map without a threshold."""
