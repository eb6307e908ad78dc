"""Random tokens, to measure speed at a vocabulary larger than a small text has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def zipf_ids(vocabulary: int, count: int = 1 << 21) -> NDArray[np.uint16]:
    """[count] tokens below `vocabulary` (at most 65,536) by Zipf's law, the same every time: token k is k times as rare
    as the first, so that a step updates rows of the embedding about as often as with a text."""
    summed = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = np.random.default_rng(1).random(count) * summed[-1]
    return np.searchsorted(summed, drawn).astype(np.uint16)
