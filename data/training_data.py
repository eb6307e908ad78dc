"""Prepared data: splits, their sizes, and batches for training and evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from data.batches.batch import Batch, BatchStream
from data.batches.epoch_order import Ints, sorted_batches
from data.batches.pairs import Pairs, PairStream
from data.batches.windows import WindowStream, evaluation_windows, sliding_windows, spread
from data.config import DataConfig, TokenizerConfig
from data.errors import DataError
from data.sources.sources import Rows
from data.tokens.bpe_dropout import BPEDropout
from data.tokens.lost_characters import Losses
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.subword_sampling import SegmentationSampler
from data.tokens.token_file import Tokens, open_tokens
from data.tokens.token_rows import open_token_rows
from data.tokens.tokenizer import Tokenizer

_WINDOWS = 256  # windows counted together
_CHUNK = 1 << 20  # tokens counted together
_FEW_PAIRS = 100
_FEW_WORDS = 100


@dataclass(eq=False)
class Prepared(ABC):
    """Tokenised splits; the base class of both tasks."""

    unit: ClassVar[str]
    """Unit of the split size."""

    folder: Path
    """Folder of the token files."""
    tokenizers: list[Tokenizer]
    """One tokenizer, or the tokenizers of source and target."""
    _config: DataConfig
    _context: int
    _seed: int
    notes: list[str]
    """What was skipped, truncated or unknown, one line each."""
    _rows: Rows
    keys: dict[str, str]
    """Hashes of the tokens of `train`, of `valid`, and of all other splits together (`test`). Equal hashes mean equal
    data, independent of file location and package version."""

    @property
    def splits(self) -> list[str]:
        """Return the names of the splits."""
        return self._rows.names

    def rows(self, split: str) -> Any:
        """Return the rows as a Dataset (IterableDataset when streaming): `text`, or `source` and `target` of pair i."""
        return self._rows[split]

    def gold(self, split: str) -> Any:
        """Return a split as a Dataset with gold labels; None if the corpus has none. All spans are in characters.

        Both tasks: `words`, the word spans of each of two languages, and `antecedents`, [pronoun start, end,
        noun start, end]. Pairs: `alignment`, [source start, end, target start, end]. Texts: the columns of
        `training.evaluation.coreference`.
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
    def lost(self, split: str) -> int:
        """Return the UTF-8 bytes of that text which the tokenizer loses (see `data.tokens.lost_characters`)."""

    @abstractmethod
    def training(self, batch_size: int, /, *, seed: int | None = None) -> BatchStream:
        """Stream shuffled batches of the training split endlessly. `batch_size`: windows, or padded tokens of pairs."""

    @abstractmethod
    def training_lengths(self) -> tuple[Ints, Ints]:
        """Return the numbers of tokens, on the target and on the source side, of the rows of an epoch of training, or
        of one of them if all are alike. Without subword sampling."""

    @abstractmethod
    def evaluation(self, split: str, batch_size: int, /, *, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Yield one pass over a split, the same every time; a large validation split is subsampled
        (`data.valid_tokens`). `batch_size` as in `training`. Of several processes (`world`), each gets every `world`-th
        batch, from number `rank` on."""

    def _most_tokens(self, split: str) -> int | None:
        """Return the maximum number of tokens in an evaluation of the split; None for no limit, as for a test."""
        return self._config.valid_tokens if split == "valid" else None

    def _little_text_note(self, size: int, least: int) -> list[str]:
        """Return a warning if the training split is smaller than `least`."""
        if size >= least:
            return []
        problem = "the model will overfit and its validation loss will rise; provide more text"
        return [f"train: only {size:,} {self.unit}: {problem}"]

    def _part_note(self, part: int, whole: int) -> list[str]:
        """Return a note on the part of the validation split that is evaluated."""
        if part == whole:
            return []
        limit = f"(data.valid_tokens={self._config.valid_tokens}; null uses all)"
        used = f"{part:,} of the {whole:,} {self.unit}"
        return [f"valid: evaluations use {used}, spread evenly, the same ones every time {limit}"]

    def summary(self) -> str:
        """List the sizes of all splits, rounded: `train 954k tokens, valid 20.2k tokens`."""
        return ", ".join(f"{split} {_rounded(self.size(split))} {self.unit}" for split in self.splits)


def _rounded(count: int) -> str:
    """Round to three digits: 12345 as 12.3k."""
    for size, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if float(f"{count:.3g}") >= size:
            return f"{float(f'{count:.3g}') / size:g}{suffix}"
    return str(count)


@dataclass(eq=False)
class PreparedText(Prepared):
    """Running text: one long row of tokens per split, with an eos before each document including the first.
    Generation without a prompt starts from that eos."""

    unit = "tokens"

    _bytes: dict[str, int]
    """UTF-8 bytes of each split."""

    def __post_init__(self) -> None:
        self.tokenizer = self.tokenizers[0]
        self._tokens: dict[str, Tokens] = {
            split: open_tokens(self.folder / f"{split}.bin", self.tokenizer.vocab_size) for split in self.splits
        }
        self.losses = {split: Losses.open(self.folder / f"{split}.losses.npy") for split in self.splits}
        self._lost = {split: int(losses.lost.sum()) for split, losses in self.losses.items()}
        for split in self.splits:
            if split != "train" and self.size(split) < 2:
                raise DataError(
                    f"data: the {split} split has {self.size(split)} tokens; at least 2 are needed to predict one"
                )
        if "train" not in self.splits:
            return
        tokens = self.size("train")
        if tokens < self._context + 1:
            raise DataError(
                f"model.context={self._context} is longer than the text: the training split has {tokens} tokens; "
                f"set model.context to at most {max(1, tokens - 1)} or provide more text"
            )
        self.notes += self._little_text_note(tokens, least=10 * self._context)
        if (most := self._most_tokens("valid")) and self.size("valid") - 1 > most:
            self.notes += self._part_note(self._limit_bytes("valid"), self.size("valid"))

    @cached_property
    def whole_words(self) -> list[int]:
        """Return the tokens that are a word between two spaces somewhere in the validation text; all tokens of text if
        these are fewer than `_FEW_WORDS`, as among characters."""
        pieces = self.tokenizer.text_pieces()
        begins = np.zeros(self.tokenizer.vocab_size, dtype=bool)
        begins[[token for piece, token in pieces.items() if piece[0] == "\u2581" and len(piece) > 1]] = True
        tokens = np.asarray(self._tokens["valid"][:_CHUNK])
        words = np.unique(tokens[:-1][begins[tokens[:-1]] & begins[tokens[1:]]])
        return words.tolist() if len(words) >= _FEW_WORDS else sorted(pieces.values())

    def _limit_bytes(self, split: str) -> int:
        """Scale a split's byte count to the part that an evaluation uses, and return the number of tokens in that part.

        The scale factor is (bytes of evaluated tokens) / (bytes of all tokens).
        """
        lengths = self.tokenizer.byte_lengths.copy()
        lengths[self.tokenizer.start_id] = 1
        tokens, losses = self._tokens[split], self.losses[split]
        whole = sum(int(lengths[tokens[n : n + _CHUNK]].sum()) for n in range(1, len(tokens), _CHUNK))
        whole += int(losses.differences.sum())
        count = part = lost = 0
        for batch in self.evaluation(split, _WINDOWS):
            count += batch.target_tokens
            part += int(lengths[batch.targets].sum())
            assert batch.rows is not None
            here = np.isin(losses.positions, batch.rows[:, None] + np.arange(1, batch.targets.shape[1] + 1))
            part += int(losses.differences[here].sum())
            lost += int(losses.lost[here].sum())
        self._bytes[split], self._lost[split] = round(self._bytes[split] * part / whole), lost
        return count

    def size(self, split: str) -> int:
        """Return the number of tokens of a split, including the eos before each document."""
        return len(self._tokens[split])

    def bytes(self, split: str) -> int:
        """Return the UTF-8 bytes of the evaluated text of a split, plus one per document boundary."""
        return self._bytes[split]

    def lost(self, split: str) -> int:
        """Return the UTF-8 bytes of the evaluated text that the tokenizer loses."""
        return self._lost[split]

    def training(self, batch_size: int, seed: int | None = None) -> WindowStream:
        """Stream shuffled windows of the training split, [batch_size, context]."""
        seed = self._seed if seed is None else seed
        return WindowStream(self._tokens["train"], batch_size, self._context, seed, self.tokenizer.start_id)

    def training_lengths(self) -> tuple[Ints, Ints]:
        """As in Prepared: the length of a window."""
        return np.array([self._context]), np.array([0])

    def evaluation(self, split: str, batch_size: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Yield one pass over a split: every token is predicted exactly once, except the eos before the text. If a
        validation split is large, only evenly spaced windows are used (`data.valid_tokens`)."""
        most = self._most_tokens(split)
        return evaluation_windows(self._tokens[split], batch_size, self._context, most, rank, world)

    def sliding(self, split: str, batch_size: int, stride: int) -> Iterator[Batch]:
        """Yield one pass over a whole split in windows that overlap, `stride` tokens apart (see `sliding_windows`)."""
        return sliding_windows(self._tokens[split], batch_size, self._context, stride)

    def texts(self, split: str, count: int, length: int | None = None) -> list[str]:
        """Return the beginnings of `count` documents, or passages spread over the text if it has fewer documents; at
        most `length` tokens each (default: the context)."""
        length = self._context if length is None else length
        tokens = self._tokens[split]
        head = np.asarray(tokens[: 64 * length * count])
        starts = np.flatnonzero(head == self.tokenizer.start_id)[:count] + 1
        if len(starts) < count:
            starts = np.linspace(0, max(0, len(tokens) - length), count, dtype=np.int64)
            starts += tokens[starts] == self.tokenizer.start_id
        passages = []
        for start in starts:
            ids = np.asarray(tokens[start : start + length])
            ends = np.flatnonzero(ids == self.tokenizer.start_id)
            passages.append(self.tokenizer.decode(ids[: ends[0]].tolist() if len(ends) else ids.tolist()))
        return passages


@dataclass(eq=False)
class PreparedPairs(Prepared):
    """Tokenised sentence pairs. With a shared vocabulary both tokenizers are the same object."""

    unit = "pairs"

    _tokenizer_config: TokenizerConfig

    def __post_init__(self) -> None:
        self.source_tokenizer, self.target_tokenizer = self.tokenizers[0], self.tokenizers[-1]
        self._bytes: dict[str, int] = {}
        self._pairs = {
            split: Pairs(
                open_token_rows(self.folder, f"{split}.source", self.source_tokenizer.vocab_size),
                open_token_rows(self.folder, f"{split}.target", self.target_tokenizer.vocab_size),
                self.source_tokenizer,
                self.target_tokenizer,
            )
            for split in self.splits
        }
        self.notes += self._length_notes()
        if "train" not in self.splits:
            return
        self.notes += self._little_text_note(self.size("train"), least=_FEW_PAIRS)
        self.notes += self._part_note(len(self._evaluated("valid")), self.size("valid"))
        if not len(self._kept):
            raise DataError(
                f"model.context={self._context} is shorter than every training pair; "
                f"the shortest pair needs {self._longest('train').min()}"
            )

    def _longest(self, split: str) -> Ints:
        """Return the context length that each pair needs: tokens of its longer side including eos, and the tag of the
        other direction."""
        pairs = self._pairs[split]
        tag = split == "train" and self._config.both_directions
        return np.maximum(pairs.source.lengths, pairs.target.lengths) + 1 + tag

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
        """Return the UTF-8 bytes of the targets, plus one per eos; of a truncated target, only the kept part counts."""
        if split not in self._bytes:
            rows = self._evaluated(split)
            texts = self._rows[split].select(rows)["target"][:]
            size = sum(len(text.encode()) + 1 for text in texts)
            for place in np.flatnonzero(self._pairs[split].target.lengths[rows] >= self._context):
                _, spans = self.target_tokenizer.spans(texts[place])
                size -= len(texts[place][spans[self._context - 1][1] :].encode()) + 1
            self._bytes[split] = size
        return self._bytes[split]

    def lost(self, split: str) -> int:
        """Return the UTF-8 bytes of these targets that the tokenizer loses."""
        losses = Losses.open(self.folder / f"{split}.target.losses.npy")
        evaluated = np.isin(losses.rows, self._evaluated(split)) & (losses.positions < self._context)
        return int(losses.lost[evaluated].sum())

    def training(self, batch_tokens: int | None = None, seed: int | None = None) -> PairStream:
        """Stream shuffled batches of about `batch_tokens` source and target tokens.

        Raises DataError if both directions are wanted of two vocabularies, which matters for training only.
        """
        if self._config.both_directions and len(self.tokenizers) > 1:
            raise DataError("data.both_directions: needs one vocabulary of both languages (tokenizer.shared=true)")
        budget = self._config.batch_tokens if batch_tokens is None else batch_tokens
        seed = self._seed if seed is None else seed
        multiple = self._config.length_multiple
        return PairStream(self._epoch_pairs, budget, self._context, multiple, seed)

    def training_lengths(self) -> tuple[Ints, Ints]:
        """As in Prepared, with eos, in both directions if they are trained."""
        pairs = self._pairs["train"]
        target, source = pairs.target.lengths[self._kept] + 1, pairs.source.lengths[self._kept] + 1
        if self._config.both_directions:  # its sources begin with a tag
            target, source = np.concatenate((target, source)), np.concatenate((source, target + 1))
        return target, source

    def evaluation(self, split: str, batch_tokens: int | None = None, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Yield one pass over a split, sorted by length; pairs longer than the context are truncated (see `notes`). If
        a validation split is large, only evenly spaced pairs are used (`data.valid_tokens`)."""
        chosen = self._evaluated(split)
        budget = self._config.batch_tokens if batch_tokens is None else batch_tokens
        source, target = self._cut_lengths(split)
        for rows in islice(sorted_batches(source[chosen], target[chosen], budget), rank, None, world):
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
        both = self._config.both_directions
        pairs, rows = self._pairs["train"], self._kept
        if self._tokenizer_config.sampling:
            source, target = self._samplers
            most = self._context - 1 - both
            drawn = source.draw((seed, epoch, 0), most), target.draw((seed, epoch, 1), most)
            pairs = Pairs(*drawn, self.source_tokenizer, self.target_tokenizer, self._kept)
            rows = np.arange(len(self._kept))
        if both:
            pairs, rows = pairs.both_directions(), np.concatenate((rows, len(pairs.source.lengths) + rows))
        return pairs, rows

    @cached_property
    def _samplers(self) -> list[BPEDropout | SegmentationSampler]:
        rows = self._rows["train"].select(self._kept)
        sides = (("source", self.source_tokenizer), ("target", self.target_tokenizer))
        config, samplers = self._tokenizer_config, []
        sampler = BPEDropout if config.kind == "bpe" else SegmentationSampler
        for side, tokenizer in sides:
            if not isinstance(tokenizer, SentencePieceTokenizer):
                raise DataError("tokenizer.sampling: needs a tokenizer that was trained here; leave it at 0")
            samplers.append(sampler(tokenizer, rows[side][:], config.sampling))
        return samplers
