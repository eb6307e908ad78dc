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
    """Links of a map: sorted pairs (key, query), which are (source, target) positions for a translation.

    Special tokens are excluded before the argmax.
    """
    words = [row for row, special in enumerate(chosen.queries.special) if not special]
    others = [column for column, special in enumerate(chosen.keys.special) if not special]
    pairs = links(chosen.matrix[np.ix_(words, others)], readout, threshold)
    return sorted((others[column], words[row]) for row, column in pairs)


def links(weights: np.ndarray, readout: Readout, threshold: float = 0.5) -> list[tuple[int, int]]:
    """Linked (row, column) pairs of a map [Q,K]; never with weight 0 or NaN. The first of equal weights wins."""
    weights = np.nan_to_num(weights, nan=0.0)
    if not weights.size:
        return []
    linked = weights >= threshold if readout == "threshold" else READOUTS[readout](weights)
    linked &= weights > 0
    return [(int(row), int(column)) for row, column in np.argwhere(linked)]


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Links in the format of Pharaoh, GIZA++ and fast_align: "0-0 1-2", source-target, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def mutual(weights: np.ndarray) -> np.ndarray:
    """Mask [...,Q,K] bool of the pairs whose weight is the largest in both row and column."""
    return _best(weights, -1) & _best(weights, -2)


def argmax(weights: np.ndarray) -> np.ndarray:
    """Mask [...,Q,K] bool of the largest weight in each row."""
    return _best(weights, -1)


def grown(weights: np.ndarray) -> np.ndarray:
    """Mask [...,Q,K] bool of the mutual pairs and adjacent pairs that are the argmax in one direction (grow-diag,
    Koehn et al. 2003)."""
    linked, either = mutual(weights), _best(weights, -1) | _best(weights, -2)
    flat_links, flat_either = linked.reshape(-1, *linked.shape[-2:]), either.reshape(-1, *linked.shape[-2:])
    for links, candidates in zip(flat_links, flat_either, strict=True):
        _grow(links, candidates)
    return linked


def _grow(links: np.ndarray, candidates: np.ndarray) -> None:
    """Add candidates adjacent to a link whose row or column has no link yet, in place, until none is left."""
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
"""Functions that extract links from a map without a threshold."""
