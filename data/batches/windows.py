"""Form windows of a long row of tokens: the batches of a language model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from data.batches.batch import IGNORED, Batch, BatchStream
from data.tokens.token_file import Tokens

_CHUNK = 1 << 24
"""Tokens searched at once, so that a memory-mapped text is never in memory as a whole."""

Ints = NDArray[np.int64]


class WindowStream(BatchStream):
    """Shuffled windows of `context` tokens; an epoch contains each token in exactly one window, except for a remainder
    shorter than a window.

    In each epoch the documents are permuted, so that a document is preceded by another one, and the first window starts
    at a different random token, so that over the epochs a token appears at all positions. The order takes 8 bytes per
    window and 24 per document. The text is a ring: its last token is followed by the eos at its beginning, which is
    predicted and read like any other eos. Batches always have `batch_size` rows: a batch may hold the end of an epoch
    and the start of the next. The position counts windows.
    """

    def __init__(self, tokens: Tokens, batch_size: int, context: int, seed: int, eos_id: int | None = None) -> None:
        """eos_id: the token that begins each document; None if the text is a single one."""
        super().__init__(seed)
        self._tokens, self._batch_size, self._context = tokens, batch_size, context
        self._windows = len(tokens) // context
        self._order: tuple[tuple[int, int], Ints] | None = None
        self._eos_id = eos_id
        self._document_starts: Ints | None = None
        self._documents: ShuffledDocuments | None = None

    @property
    def epoch_batches(self) -> int:
        """Return the number of batches per epoch, as in BatchStream."""
        return -(-self._windows // self._batch_size)

    @property
    def epoch(self) -> float:
        """Return the number of epochs so far, as in BatchStream."""
        return self._epoch + self._position / self._windows

    def next_batch(self) -> Batch:
        """Return the next batch, as in BatchStream."""
        places = np.concatenate(list(self._places(self._batch_size)))
        return windows_at(self._tokens, places)

    def skip_batch(self) -> None:
        """Advance by one batch, as in BatchStream."""
        for _ in self._take(self._batch_size):
            pass

    def _places(self, count: int) -> Iterator[Ints]:
        """Yield the positions in the text of the next `count` windows and the token after each, [.., context + 1]."""
        for starts in self._take(count):
            places = (starts[:, None] + np.arange(self._context + 1)) % len(self._tokens)
            yield places if self._documents is None else self._documents.positions(places)

    def _take(self, count: int) -> Iterator[Ints]:
        """Advance by `count` windows and yield where they begin in this epoch's text, not yet wrapped around."""
        while count > 0:
            if self._position >= self._windows:
                self._epoch, self._position = self._epoch + 1, 0
            taken = self._starts(self._epoch)[self._position : self._position + count]
            self._position += len(taken)
            count -= len(taken)
            yield taken

    def _starts(self, epoch: int) -> Ints:
        """Return the first tokens of all windows in the epoch's order, not yet wrapped around."""
        if self._order is None or self._order[0] != (self.seed, epoch):
            self._order = self._documents = None  # free the previous order first
            random = np.random.default_rng((self.seed, epoch))
            first = random.integers(len(self._tokens))
            starts = random.permutation(self._windows)
            starts *= self._context  # in place: the order of a large text takes as much memory as all else
            starts += first
            self._documents = self._shuffled(epoch)
            self._order = (self.seed, epoch), starts
        return self._order[1]

    def _shuffled(self, epoch: int) -> ShuffledDocuments | None:
        """Permute the documents; None if there is only one."""
        if self._eos_id is None:
            return None
        if self._document_starts is None:
            self._document_starts = document_starts(self._tokens, self._eos_id)
        if len(self._document_starts) == 1:
            return None
        random = np.random.default_rng((self.seed, epoch, 1))
        return ShuffledDocuments(self._document_starts, len(self._tokens), random)


def document_starts(tokens: Tokens, eos_id: int) -> Ints:
    """Return where the documents begin: at every eos, and at the first token."""
    parts = [np.flatnonzero(tokens[n : n + _CHUNK] == eos_id) + n for n in range(0, len(tokens), _CHUNK)]
    starts = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
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


def window_batch(tokens: Tokens, starts: Ints, length: int) -> Batch:
    """Batch the windows that begin at `starts`: inputs tokens[s:s+length], targets one token later; both [B,length].

    The text wraps around: the first token follows the last.
    """
    return windows_at(tokens, (starts[:, None] + np.arange(length + 1)) % len(tokens))


def windows_at(tokens: Tokens, places: Ints) -> Batch:
    """Batch the windows that consist of the tokens at `places` [B, length + 1]; inputs and targets are [B, length]."""
    rows = torch.from_numpy(tokens[places].astype(np.int64))
    return Batch(inputs=rows[:, :-1].contiguous(), targets=rows[:, 1:].contiguous(), rows=places[:, 0])


def evaluation_windows(
    tokens: Tokens, batch_size: int, context: int, most: int | None = None, rank: int = 0, world: int = 1
) -> Iterator[Batch]:
    """Yield one pass over the text: every token is predicted exactly once, except the very first.

    If there are more than `most` tokens to predict, only whole windows spread evenly over the text are used. Of several
    processes (`world`), each gets every `world`-th batch, from number `rank` on.
    """
    predictions = len(tokens) - 1
    full = predictions // context
    chosen = spread(full, full if most is None or predictions <= most else max(1, most // context))
    starts = range(0, len(chosen), batch_size)
    for first in starts[rank::world]:
        yield window_batch(tokens, chosen[first : first + batch_size] * context, context)
    if len(chosen) == full and (rest := predictions % context) and len(starts) % world == rank:
        yield window_batch(tokens, np.array([full * context]), rest)


def sliding_windows(tokens: Tokens, batch_size: int, context: int, stride: int) -> Iterator[Batch]:
    """Yield overlapping windows, `stride` tokens apart: every token is predicted exactly once, except the very first.

    The first window predicts all its tokens, each other one its last `stride`; all other targets are IGNORED. So every
    token after the first window is predicted from at least `context - stride` tokens.
    """
    predictions = len(tokens) - 1
    context = min(context, predictions)
    starts = np.arange(1 + -(-(predictions - context) // stride)) * stride
    offsets = np.arange(context)
    for first in range(0, len(starts), batch_size):
        rows = starts[first : first + batch_size, None]
        batch = window_batch(tokens, rows[:, 0], context)
        predicted = (rows > 0) & (offsets < context - stride)  # predicted by the window before
        unused = torch.from_numpy(predicted | (rows + offsets >= predictions))
        yield replace(batch, targets=batch.targets.masked_fill(unused, IGNORED))


def spread(size: int, count: int) -> Ints:
    """Return `count` distinct, evenly spaced numbers of [0, size); all of them if `size` is not larger."""
    return np.arange(count) * size // count if count < size else np.arange(size)
