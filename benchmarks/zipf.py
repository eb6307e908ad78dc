"""Draw random tokens from a Zipf distribution, to measure training with a larger vocabulary than a small text has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def zipf_ids(vocabulary: int, count: int = 1 << 21) -> NDArray[np.uint16]:
    """Draw `count` token ids below `vocabulary` (at most 65,536) from a Zipf distribution with a fixed seed -> [count].

    Token k is k + 1 times rarer than token 0, so that steps update embedding rows about as often as with a text.
    """
    summed = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = np.random.default_rng(1).random(count) * summed[-1]
    return np.searchsorted(summed, drawn).astype(np.uint16)
