"""Prepared data: splits, their sizes, and batches for training and evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from data.batches.batch import Batch, BatchStream
from data.batches.buckets import Ints, sorted_batches
from data.batches.pairs import Pairs, PairStream
from data.batches.windows import WindowStream, evaluation_windows, spread
from data.config import DataConfig
from data.errors import DataError
from data.sources.sources import Rows
from data.tokens.subword_sampling import SegmentationSampler
from data.tokens.token_file import Tokens, open_tokens
from data.tokens.token_rows import open_token_rows
from data.tokens.tokenizer import Tokenizer

_WINDOWS = 256  # windows counted together
_CHUNK = 1 << 20  # tokens counted together
_FEW_PAIRS = 100


class Prepared(ABC):
    """Tokenised splits; the base class of both tasks."""

    unit: str
    """Unit of the split size."""

    def __init__(
        self,
        tokenizers: Sequence[Tokenizer],
        splits: Sequence[str],
        config: DataConfig,
        rows: Rows,
        keys: dict[str, str],
    ) -> None:
        self._config = config
        self.tokenizers = list(tokenizers)
        """One tokenizer, or the tokenizers of source and target."""
        self.splits = list(splits)
        self.notes: list[str] = []
        """What was skipped, truncated or unknown, one line each."""
        self.keys = keys
        """Hashes of the tokens of `train`, of `valid`, and of all splits for the `test`. Equal hashes mean equal data,
        independent of file location and package version."""
        self._rows = rows

    def rows(self, split: str) -> Any:
        """Return the split's rows as a Dataset (IterableDataset when streaming): `text`, or `source` and `target`,
        where row i is pair i."""
        return self._rows[split]

    def gold(self, split: str) -> Any:
        """Return a split as a Dataset with gold labels; None for a corpus without gold. All spans are in characters.

        Both tasks: `words`, the word spans of each of two languages, and `antecedents`, [pronoun start, end,
        noun start, end]. Pairs: `alignment`, [source start, end, target start, end]. Texts: the columns of
        `data.coreference`.
        """
        return self._rows[split] if self._rows.gold else None

    @abstractmethod
    def size(self, split: str) -> int:
        """Return the number of tokens or pairs."""

    @abstractmethod
    def bytes(self, split: str) -> int:
        """Return the UTF-8 bytes of the text predicted by `evaluation(split)`, independent of the tokenizer (for bits
        per byte). An eos counts as one byte, like a newline."""

    @abstractmethod
    def training(self, batch_size: int, /, *, seed: int | None = None, rank: int = 0, world: int = 1) -> BatchStream:
        """Stream shuffled batches of the training split endlessly. `batch_size`: windows, or padded tokens of pairs."""

    @abstractmethod
    def evaluation(self, split: str, batch_size: int, /) -> Iterator[Batch]:
        """Yield one pass over a split, the same every time; a large validation split is subsampled
        (`data.valid_tokens`). `batch_size` as in `training`."""

    def _most_tokens(self, split: str) -> int | None:
        """Return the maximum number of tokens in an evaluation of the split; None for no limit, as for a test."""
        return self._config.valid_tokens if split == "valid" else None

    def _little_text_note(self, size: int, least: int) -> list[str]:
        """Return a warning if the training split is smaller than `least`."""
        if size >= least:
            return []
        return [
            f"train: only {size:,} {self.unit}: the model will overfit and its validation loss will rise;"
            " provide more text"
        ]

    def _part_note(self, part: int, whole: int) -> list[str]:
        """Return a note on the part of the validation split that is evaluated."""
        if part == whole:
            return []
        return [
            f"valid: evaluations use {part:,} of the {whole:,} {self.unit}, spread evenly, the same ones every time "
            f"(data.valid_tokens={self._config.valid_tokens}; null uses all)"
        ]

    def summary(self) -> str:
        """List the sizes of all splits, rounded: `train 954k tokens, valid 20.2k tokens`."""
        return ", ".join(f"{split} {_rounded(self.size(split))} {self.unit}" for split in self.splits)


def _rounded(count: int) -> str:
    """Round to three digits: 12345 as 12.3k."""
    for size, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if float(f"{count:.3g}") >= size:
            return f"{float(f'{count:.3g}') / size:g}{suffix}"
    return str(count)


class PreparedText(Prepared):
    """Running text: one long row of tokens per split, with an eos before each document including the first.
    Generation without a prompt starts from that eos."""

    unit = "tokens"

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        config: DataConfig,
        sizes: dict[str, dict[str, int]],
        context: int,
        seed: int,
        notes: list[str],
        rows: Rows,
        keys: dict[str, str],
    ) -> None:
        super().__init__([tokenizer], list(sizes), config, rows, keys)
        self.tokenizer = tokenizer
        self._sizes, self._context, self._seed = sizes, context, seed
        self._tokens: dict[str, Tokens] = {
            split: open_tokens(folder / f"{split}.bin", tokenizer.vocab_size) for split in sizes
        }
        for split, size in sizes.items():
            if split != "train" and size["tokens"] < 2:
                raise DataError(
                    f"data: the {split} split has {size['tokens']} tokens; at least 2 are needed to predict one"
                )
        self._check_context(context)
        self._bytes = {split: size["bytes"] for split, size in sizes.items()}
        self.notes = notes + self._little_text_note(self.tokens("train"), least=10 * context)
        if (most := self._most_tokens("valid")) and self.tokens("valid") - 1 > most:
            self.notes += self._part_note(self._limit_bytes("valid"), self.tokens("valid"))

    def _limit_bytes(self, split: str) -> int:
        """Reduce the byte count of a split to the tokens that an evaluation uses; returns the number of these tokens.

        The byte count is scaled by the bytes of the evaluated pieces over the bytes of all pieces, which equal the
        bytes of the text except for unknown characters and normalisation.
        """
        lengths = self.tokenizer.byte_lengths.copy()
        lengths[self.tokenizer.eos_id] = 1
        tokens = self._tokens[split]
        whole = sum(int(lengths[tokens[n : n + _CHUNK]].sum()) for n in range(1, len(tokens), _CHUNK))
        count = part = 0
        for batch in self.evaluation(split, _WINDOWS):
            count += batch.target_tokens
            part += int(lengths[batch.targets].sum())
        self._bytes[split] = round(self._sizes[split]["bytes"] * part / whole)
        return count

    def _check_context(self, context: int) -> None:
        tokens = self.tokens("train")
        if tokens < context + 1:
            raise DataError(
                f"model.context={context} is longer than the text: the training split has {tokens} tokens; "
                f"set model.context to at most {max(1, tokens - 1)} or provide more text"
            )

    def tokens(self, split: str) -> int:
        """Return the number of tokens of a split, including the eos before each document."""
        return self._sizes[split]["tokens"]

    def size(self, split: str) -> int:
        """Return the number of tokens, as `tokens`."""
        return self.tokens(split)

    def bytes(self, split: str) -> int:
        """Return the UTF-8 bytes of a split's text, plus one per document boundary; for a large validation split,
        only of the evaluated part."""
        return self._bytes[split]

    def training(
        self, batch_size: int, context: int | None = None, seed: int | None = None, rank: int = 0, world: int = 1
    ) -> WindowStream:
        """Stream shuffled windows of the training split, [batch_size, context] in each of `world` processes."""
        context = self._context if context is None else context
        self._check_context(context)
        return WindowStream(
            self._tokens["train"], batch_size, context, self._seed if seed is None else seed, rank, world
        )

    def evaluation(self, split: str, batch_size: int, context: int | None = None) -> Iterator[Batch]:
        """Yield one pass over a split: every token is predicted exactly once, except the eos before the text; for a
        large validation split, evenly spread windows (`data.valid_tokens`)."""
        context = self._context if context is None else context
        return evaluation_windows(self._tokens[split], batch_size, context, self._most_tokens(split))

    def texts(self, split: str, count: int, length: int | None = None) -> list[str]:
        """Return the beginnings of `count` documents, or passages spread over the text if it has fewer documents; at
        most `length` tokens each (default: the context)."""
        length = self._context if length is None else length
        tokens = self._tokens[split]
        head = np.asarray(tokens[: 64 * length * count])
        starts = np.flatnonzero(head == self.tokenizer.eos_id)[:count] + 1
        if len(starts) < count:
            starts = np.linspace(0, max(0, len(tokens) - length), count, dtype=np.int64)
            starts += tokens[starts] == self.tokenizer.eos_id
        found = []
        for start in starts:
            ids = np.asarray(tokens[start : start + length])
            ends = np.flatnonzero(ids == self.tokenizer.eos_id)
            found.append(self.tokenizer.decode(ids[: ends[0]].tolist() if len(ends) else ids.tolist()))
        return found


class PreparedPairs(Prepared):
    """Tokenised sentence pairs. With a shared vocabulary both tokenizers are the same object."""

    unit = "pairs"

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
        keys: dict[str, str],
    ) -> None:
        super().__init__(tokenizers, rows.names, config, rows, keys)
        self.source_tokenizer, self.target_tokenizer = tokenizers[0], tokenizers[-1]
        self.shared = len(tokenizers) == 1
        self._sampling, self._context, self._seed = sampling, context, seed
        self._bytes: dict[str, int] = {}
        self._pairs = {
            split: Pairs(
                open_token_rows(folder, f"{split}.source", self.source_tokenizer.vocab_size),
                open_token_rows(folder, f"{split}.target", self.target_tokenizer.vocab_size),
            )
            for split in rows.names
        }
        self.notes = notes + self._little_text_note(self.size("train"), least=_FEW_PAIRS) + self._length_notes()
        self.notes += self._part_note(len(self._evaluated("valid")), self.size("valid"))
        if not len(self._kept):
            raise DataError(
                f"model.context={context} is shorter than every training pair; "
                f"the shortest pair needs {self._longest('train').min()}"
            )

    def _longest(self, split: str) -> Ints:
        """Return the context length that each pair needs: tokens of its longer side including eos."""
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
                fate = "skipped" if split == "train" else "truncated"
                notes.append(
                    f"{split}: {over:,} of {len(needed):,} pairs are longer than model.context={self._context} tokens "
                    f"and were {fate} (the longest needs {needed.max()})"
                )
        return notes

    def size(self, split: str) -> int:
        """Return the number of pairs of a split, including pairs that are too long for training."""
        return len(self._pairs[split].target.lengths)

    def bytes(self, split: str) -> int:
        """Return the UTF-8 bytes of a split's targets, plus one per eos; truncated targets count without the rest."""
        if split not in self._bytes:
            rows = self._evaluated(split)
            texts = self._rows[split].select(rows)["target"][:]
            size = sum(len(text.encode()) + 1 for text in texts)
            for place in np.flatnonzero(self._pairs[split].target.lengths[rows] >= self._context):
                _, spans = self.target_tokenizer.spans(texts[place])
                size -= len(texts[place][spans[self._context - 1][1] :].encode()) + 1
            self._bytes[split] = size
        return self._bytes[split]

    def training(
        self, batch_tokens: int | None = None, seed: int | None = None, rank: int = 0, world: int = 1
    ) -> PairStream:
        """Stream shuffled batches of about `batch_tokens` padded tokens (source + target), in each of `world`
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
        """Yield one pass over a split, sorted by length; pairs longer than the context are truncated (see `notes`). For
        a large validation split, evenly spread pairs (`data.valid_tokens`)."""
        chosen = self._evaluated(split)
        budget = self._config.batch_tokens if batch_tokens is None else batch_tokens
        source, target = self._cut_lengths(split)
        for rows in sorted_batches(source[chosen], target[chosen], budget):
            yield self._pairs[split].batch(chosen[rows], self._context)

    def _cut_lengths(self, split: str) -> tuple[Ints, Ints]:
        """Return the number of tokens of both sides of each pair, including eos, truncated to the context."""
        pairs = self._pairs[split]
        return np.minimum(pairs.source.lengths + 1, self._context), np.minimum(pairs.target.lengths + 1, self._context)

    def _evaluated(self, split: str) -> Ints:
        """Return the rows that an evaluation uses; the limit applies to the tokens of both sides."""
        size, most = self.size(split), self._most_tokens(split)
        tokens = sum(int(side.sum()) for side in self._cut_lengths(split))
        return np.arange(size) if most is None or tokens <= most else spread(size, max(1, size * most // tokens))

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
