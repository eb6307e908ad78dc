"""The documents of a row of tokens, in a new order every epoch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from data.tokens.token_file import Tokens

_CHUNK = 1 << 24
"""Tokens searched at once, so that a memory-mapped text is never in memory as a whole."""

Ints = NDArray[np.int64]


def document_starts(tokens: Tokens, eos_id: int) -> Ints:
    """Return where the documents begin: at every eos, and at the first token."""
    found = [np.flatnonzero(tokens[n : n + _CHUNK] == eos_id) + n for n in range(0, len(tokens), _CHUNK)]
    starts = np.concatenate([*found, np.empty(0, dtype=np.int64)])
    return starts if len(starts) and starts[0] == 0 else np.append(0, starts)


class ShuffledDocuments:
    """A text whose documents have been permuted: maps its positions to those of the text itself.

    Takes 16 bytes per document.
    """

    def __init__(self, starts: Ints, length: int, random: np.random.Generator) -> None:
        """starts: from `document_starts`. length: number of tokens of the text."""
        order = random.permutation(len(starts))
        lengths = np.diff(starts, append=length)[order]
        self._begins = np.cumsum(lengths) - lengths  # in the permuted text
        self._shifts = starts[order] - self._begins

    def positions(self, permuted: Ints) -> Ints:
        """Map positions in the permuted text to positions in the text; same shape."""
        return permuted + self._shifts[np.searchsorted(self._begins, permuted, side="right") - 1]
