"""Tokens of no text: for speed at a vocabulary that no small text has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def zipf_ids(vocabulary: int, count: int = 1 << 21) -> NDArray[np.uint16]:
    """[count] numbers below `vocabulary`, at most 65,536: the k-th is drawn k times more rarely than the first, as
    words are.

    The same numbers every time. Which rows of the embedding a step writes to, and how often, is so about that of a
    text.
    """
    summed = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = np.random.default_rng(1).random(count) * summed[-1]
    return np.searchsorted(summed, drawn).astype(np.uint16)
