"""Prepared data as training sees it: splits, sizes, streams of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from data.batches import Batch
from data.buckets import Ints, sorted_batches
from data.config import DataConfig
from data.errors import DataError
from data.pairs import Pairs, PairStream, SourceBatch, encode_sources
from data.sampling import SegmentationSampler
from data.sentences import open_sentences
from data.sources import Rows
from data.token_file import Tokens, open_tokens
from data.tokenizer import Tokenizer
from data.windows import WindowStream, evaluation_windows

if TYPE_CHECKING:
    from datasets import Dataset


class PreparedText:
    """Running text as one long row of tokens per split; documents are separated by eos."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        sizes: dict[str, dict[str, int]],
        context: int,
        seed: int,
        notes: list[str],
        rows: Rows,
    ) -> None:
        self.tokenizer = tokenizer
        self.splits = list(sizes)
        self.notes = notes
        """What was left out or could not be kept, one line each."""
        self._sizes, self._context, self._seed, self._rows = sizes, context, seed, rows
        self._tokens: dict[str, Tokens] = {
            split: open_tokens(folder / f"{split}.bin", tokenizer.vocab_size) for split in sizes
        }
        for split, size in sizes.items():
            if split != "train" and size["tokens"] < 2:
                raise DataError(
                    f"data: the {split} split has {size['tokens']} tokens; at least 2 are needed to predict one"
                )
        self._check_context(context)

    def _check_context(self, context: int) -> None:
        tokens = self.tokens("train")
        if tokens < context + 1:
            raise DataError(
                f"model.context={context} is longer than the text: the training split has {tokens} tokens; "
                f"set model.context to at most {max(1, tokens - 1)} or give more text"
            )

    def tokens(self, split: str) -> int:
        """Tokens of a split, the eos between documents included."""
        return self._sizes[split]["tokens"]

    def bytes(self, split: str) -> int:
        """UTF-8 bytes of a split's text, plus one for each border between documents (for bits per byte)."""
        return self._sizes[split]["bytes"]

    def rows(self, split: str) -> Any:
        """The split's rows as a Dataset (IterableDataset when streaming); those of the embedded corpus carry gold
        columns."""
        return self._rows[split]

    def training(
        self, batch_size: int, context: int | None = None, seed: int | None = None, rank: int = 0, world: int = 1
    ) -> WindowStream:
        """Endless shuffled windows of the training split, [batch_size, context] in each of `world` processes."""
        context = self._context if context is None else context
        self._check_context(context)
        return WindowStream(
            self._tokens["train"], batch_size, context, self._seed if seed is None else seed, rank, world
        )

    def evaluation(self, split: str, batch_size: int, context: int | None = None) -> Iterator[Batch]:
        """One pass over a split: every token predicted exactly once, except the very first."""
        return evaluation_windows(self._tokens[split], batch_size, self._context if context is None else context)

    def texts(self, split: str, count: int, length: int | None = None) -> list[str]:
        """Beginnings of `count` documents, or passages spread over the text if it has fewer; at most `length` tokens
        (the context)."""
        length = self._context if length is None else length
        tokens = self._tokens[split]
        head = np.asarray(tokens[: 64 * length * count])
        borders = np.flatnonzero(head == self.tokenizer.eos_id) + 1
        starts = np.concatenate(([0], borders))[:count]
        if len(starts) < count:
            starts = np.linspace(0, max(0, len(tokens) - length), count, dtype=np.int64)
        found = []
        for start in starts:
            ids = np.asarray(tokens[start : start + length])
            ends = np.flatnonzero(ids == self.tokenizer.eos_id)
            found.append(self.tokenizer.decode(ids[: ends[0]].tolist() if len(ends) else ids.tolist()))
        return found


class PreparedPairs:
    """Tokenised sentence pairs. With one shared vocabulary both tokenizers are the same object."""

    def __init__(
        self,
        folder: Path,
        tokenizers: Sequence[Tokenizer],
        config: DataConfig,
        sampling: float,
        context: int,
        seed: int,
        notes: list[str],
        rows: Rows,
    ) -> None:
        self.source_tokenizer, self.target_tokenizer = tokenizers[0], tokenizers[-1]
        self.shared = len(tokenizers) == 1
        self.splits = rows.names
        self._rows, self._config, self._sampling, self._context, self._seed = rows, config, sampling, context, seed
        self._pairs = {
            split: Pairs(
                open_sentences(folder, f"{split}.source", self.source_tokenizer.vocab_size),
                open_sentences(folder, f"{split}.target", self.target_tokenizer.vocab_size),
            )
            for split in rows.names
        }
        self.notes = notes + self._length_notes()
        """What was left out or cut, one line each."""
        if not len(self._kept):
            raise DataError(
                f"model.context={context} is shorter than every training pair; "
                f"the shortest needs {self._longest('train').min()}"
            )

    def _longest(self, split: str) -> Ints:
        """Tokens that each pair needs of the context: its longer side with eos."""
        pairs = self._pairs[split]
        return np.maximum(pairs.source.lengths, pairs.target.lengths) + 1

    @cached_property
    def _kept(self) -> Ints:
        return np.flatnonzero(self._longest("train") <= self._context)

    def _length_notes(self) -> list[str]:
        notes = []
        for split in self.splits:
            needed = self._longest(split)
            if over := int((needed > self._context).sum()):
                fate = "left out" if split == "train" else "cut"
                notes.append(
                    f"{split}: {over:,} of {len(needed):,} pairs are longer than model.context={self._context} tokens "
                    f"and were {fate} (the longest needs {needed.max()})"
                )
        return notes

    def rows(self, split: str) -> Dataset:
        """Rows of a split with `source` and `target`; row i is pair i. Those of the embedded corpus carry gold
        columns."""
        return self._rows[split]

    def training(
        self, batch_tokens: int | None = None, seed: int | None = None, rank: int = 0, world: int = 1
    ) -> PairStream:
        """Endless shuffled batches of about `batch_tokens` padded tokens (source + target), in each of `world`
        processes."""
        return PairStream(
            self._epoch_pairs,
            self._config.batch_tokens if batch_tokens is None else batch_tokens,
            self._context,
            self._config.length_multiple,
            self._seed if seed is None else seed,
            rank,
            world,
        )

    def evaluation(self, split: str, batch_tokens: int | None = None) -> Iterator[Batch]:
        """One pass over a split, sorted by length; pairs beyond the context are cut (see `notes`)."""
        pairs = self._pairs[split]
        limit = self._context
        budget = self._config.batch_tokens if batch_tokens is None else batch_tokens
        lengths = [np.minimum(side.lengths + 1, limit) for side in (pairs.source, pairs.target)]
        for rows in sorted_batches(lengths[0], lengths[1], budget):
            yield pairs.batch(rows, limit)

    def encode_sources(self, texts: Sequence[str], batch_tokens: int | None = None) -> Iterator[SourceBatch]:
        """Batches of sentences to translate, longest first; `indices` put the results back in order."""
        budget = self._config.batch_tokens if batch_tokens is None else batch_tokens
        return encode_sources(self.source_tokenizer, texts, budget, self._context)

    def _epoch_pairs(self, seed: int, epoch: int) -> tuple[Pairs, Ints]:
        if not self._sampling:
            return self._pairs["train"], self._kept
        source, target = self._samplers
        drawn = Pairs(
            source.draw((seed, epoch, 0), self._context - 1), target.draw((seed, epoch, 1), self._context - 1)
        )
        return drawn, np.arange(len(self._kept))

    @cached_property
    def _samplers(self) -> list[SegmentationSampler]:
        rows = self._rows["train"].select(self._kept)
        sides = (("source", self.source_tokenizer), ("target", self.target_tokenizer))
        return [SegmentationSampler(tokenizer, rows[side][:], self._sampling) for side, tokenizer in sides]
