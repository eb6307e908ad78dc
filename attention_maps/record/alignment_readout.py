"""Word alignments read out of cross-attention, and their notation.

Shapes: Q queries (rows; of a translation the target), K keys (columns; the source).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from attention_maps.record.gold import READOUTS
from attention_maps.record.recording import Kind, Recording, Rows

Readout = Literal["argmax", "mutual", "grown", "threshold"]
"""`argmax`: every query with the key it attends to most. `mutual`: of these, the pairs in which the query is also the
one that attends most to that key. `grown`: these, and pairs beside them that are strongest from one side (grow-diag,
Koehn et al. 2003). `threshold`: every pair of at least a given weight."""


def alignment(
    recording: Recording,
    sample: int = 0,
    *,
    layer: int,
    head: int | None = None,
    kind: Kind = "cross",
    rows: Rows | None = None,
    readout: Readout = "argmax",
    threshold: float = 0.5,
) -> list[tuple[int, int]]:
    """Links of a whole map: sorted pairs (key, query), which for a translation are (source, target) positions.

    Special tokens take no part: the largest weight is sought among the others. `head=None` is the heads' mean; rows
    are named as in `Recording.weight`. A causal row is never linked to what it cannot see.
    """
    chosen = recording.samples[sample]
    weights = recording.map(sample, kind, layer, head)  # [Q,K]
    queries = chosen.queries(kind, rows or ("predicts" if kind == "cross" else "reads"))
    words = [row for row, special in enumerate(queries.special) if not special]
    others = [column for column, special in enumerate(chosen.keys(kind).special) if not special]
    pairs = links(weights[np.ix_(words, others)], readout, threshold)
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
