"""Form batches of tokenised sentence pairs for training and evaluation, and of source sentences for translation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from data.batches.batch import IGNORED, Batch, BatchStream
from data.batches.epoch_order import Bucketed, Ints, sorted_batches, training_batches
from data.batches.source_sentences import SpecialIds, reversed_tag, source_ids
from data.tokens.token_rows import TokenRows, joined, prefixed, token_rows_of
from data.tokens.tokenizer import Tokenizer


@dataclass
class Pairs:
    """Both sides of one split; row i of the target is the translation of row i of the source."""

    source: TokenRows
    target: TokenRows
    source_tokenizer: SpecialIds
    target_tokenizer: SpecialIds
    numbers: Ints | None = None
    """Row number of each pair in its split; None if they are in order."""

    def both_directions(self) -> Pairs:
        """Return these pairs and, after them, each pair in the other direction, its source tagged by `reversed_tag`."""
        tagged = prefixed(self.target, reversed_tag(self.source_tokenizer))
        sides = joined(self.source, tagged), joined(self.target, self.source)
        numbers = np.arange(len(self.source.lengths)) if self.numbers is None else self.numbers
        return Pairs(*sides, self.source_tokenizer, self.target_tokenizer, np.tile(numbers, 2))

    def batch(self, rows: Ints, context: int, source_width: int = 0, target_width: int = 0) -> Batch:
        """Batch the given rows, truncated to `context` tokens (incl. eos) and padded to at least the given widths."""
        ids = self.target_tokenizer
        source, source_mask = _with_eos(self.source, self.source_tokenizer, rows, context, source_width)
        # A truncated target gets no eos: its end must be neither learned nor scored.
        target, real = _with_eos(self.target, ids, rows, context, target_width, end_cut_rows=False)
        inputs = np.empty_like(target)
        inputs[:, 0] = ids.bos_id
        inputs[:, 1:] = np.where(real[:, 1:], target[:, :-1], ids.pad_id)
        return Batch(
            inputs=torch.from_numpy(inputs),
            targets=torch.from_numpy(np.where(real, target, IGNORED)),
            source=torch.from_numpy(source),
            source_mask=None if source_mask.all() else torch.from_numpy(source_mask),
            rows=rows if self.numbers is None else self.numbers[rows],
        )


def _with_eos(
    side: TokenRows, ids: SpecialIds, rows: Ints, context: int, width: int, end_cut_rows: bool = True
) -> tuple[Ints, NDArray[np.bool_]]:
    """Return rows with eos, truncated to `context` and padded: ids [B,W] int64 and a token mask, bool [B,W].

    `torch.nn.utils.rnn.pad_sequence` needs one tensor per row and takes 10 times as long as one gather (docs/log.md).
    """
    lengths = side.offsets[rows + 1] - side.offsets[rows]
    if end_cut_rows:
        lengths = np.minimum(lengths, context - 1)
    # The model has no positions beyond the context, not even for padding.
    width = min(context, max(width, int(lengths.max()) + 1))
    tokens = side.padded(rows, width)
    columns = np.arange(width)
    tokens[columns == lengths[:, None]] = ids.eos_id
    real = columns <= lengths[:, None]
    return np.where(real, tokens, ids.pad_id), real


class PairStream(BatchStream):
    """Shuffled, bucketed batches of pairs; every row once per epoch. The position counts batches."""

    def __init__(
        self,
        pairs_of_epoch: Callable[[int, int], tuple[Pairs, Ints]],
        batch_tokens: int,
        context: int,
        multiple: int,
        seed: int,
    ) -> None:
        """`pairs_of_epoch(seed, epoch)` returns the epoch's tokens (resampled with subword sampling) and rows."""
        super().__init__(seed)
        self._pairs_of_epoch = pairs_of_epoch
        self._batch_tokens, self._context, self._multiple = batch_tokens, context, multiple
        self._plan: tuple[tuple[int, int], Pairs, list[Bucketed]] | None = None

    @property
    def epoch_batches(self) -> int:
        """Return the number of batches per epoch, as in BatchStream."""
        return len(self._planned()[1])

    @property
    def epoch(self) -> float:
        """Return the number of epochs so far, as in BatchStream."""
        return self._epoch + self._position / len(self._planned()[1])

    def first_epoch(self) -> tuple[Pairs, Ints]:
        """Return the pairs of the first epoch, and the rows that are used."""
        return self._pairs_of_epoch(self.seed, 0)

    def next_batch(self) -> Batch:
        """Return the next batch, as in BatchStream."""
        pairs, (rows, source_width, target_width) = self._next()
        return pairs.batch(rows, self._context, source_width, target_width)

    def skip_batch(self) -> None:
        """Advance by one batch, as in BatchStream."""
        self._next()

    def _next(self) -> tuple[Pairs, Bucketed]:
        pairs, batches = self._planned()
        if self._position >= len(batches):
            self._epoch, self._position = self._epoch + 1, 0
            pairs, batches = self._planned()
        self._position += 1
        return pairs, batches[self._position - 1]

    def _planned(self) -> tuple[Pairs, list[Bucketed]]:
        if self._plan is None or self._plan[0] != (self.seed, self._epoch):
            pairs, rows = self._pairs_of_epoch(self.seed, self._epoch)
            batches = training_batches(
                pairs.source.lengths[rows] + 1,
                pairs.target.lengths[rows] + 1,
                self._batch_tokens,
                self._multiple,
                np.random.default_rng((self.seed, self._epoch)),
            )
            self._plan = (self.seed, self._epoch), pairs, [batch._replace(rows=rows[batch.rows]) for batch in batches]
        return self._plan[1], self._plan[2]


@dataclass
class SourceBatch:
    """A batch of sentences to translate."""

    indices: list[int]
    """Indices of the sentences in the given list, [B]."""
    source: Tensor
    """Token ids [B,S] int64, each row ending with eos, padded on the right."""
    source_mask: Tensor | None
    """True at non-padding tokens, bool [B,S]; None if no row is padded."""

    @property
    def lengths(self) -> Tensor:
        """Return the number of tokens of each sentence, including eos, [B] int64."""
        rows, longest = self.source.shape
        return torch.full((rows,), longest) if self.source_mask is None else self.source_mask.sum(dim=1)


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], batch_tokens: int, context: int, reverse: bool = False
) -> Iterator[SourceBatch]:
    """Yield batches of source sentences with eos, longest first, so that a batch too large for memory fails at once.

    `batch_tokens`: maximum number of source tokens in a batch, including padding. Sentences longer than `context` are
    truncated; an empty sentence is a single eos. `indices` restores the order of `texts`. `reverse`: see `source_ids`.
    """
    side = token_rows_of(source_ids(tokenizer, texts, reverse), tokenizer.vocab_size)
    lengths = np.minimum(side.lengths + 1, context)
    for rows in reversed(list(sorted_batches(lengths, np.zeros_like(lengths), batch_tokens))):
        source, mask = _with_eos(side, tokenizer, rows, context, 0)
        yield SourceBatch(rows.tolist(), torch.from_numpy(source), None if mask.all() else torch.from_numpy(mask))
