"""Convert text to token ids and back: what every tokenizer can do, whatever library it uses."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

LABELS = {"\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d", "\0": "\u2400"}
"""Symbols of control characters in display names, which stay on one line: ↵ ⇥ ␍ ␀."""


class Tokenizer(ABC):
    """A vocabulary, and the rules that split text into its tokens; held in memory, and in one file of a run."""

    suffix: ClassVar[str]
    """Ends the names of its files; `data.tokens.loading` reads them."""
    escape: ClassVar[str | None] = None
    """A character of decoded text that means something only together with the next one; see `unescape`."""

    pad_id: int
    """Fills short rows of a batch."""
    unk_id: int
    """Stands for what is not in the vocabulary; -1 if there is no such token."""
    bos_id: int
    """The first token that the decoder of a translator reads."""
    eos_id: int
    """Ends a translation, and ends what a language model writes."""
    start_id: int
    """The token before the first one of a text, for a language model; in running text it separates documents."""
    special_ids: frozenset[int]
    """Tokens that stand for no text."""

    def __init__(self, model: bytes) -> None:
        """model: the content of its file. Raises ValueError or RuntimeError if it is damaged."""
        self.model = model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file."""
        Path(path).write_bytes(self.model)

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Return the vocabulary size, including special tokens."""

    @property
    @abstractmethod
    def spellings(self) -> list[str]:
        """Return how the library spells each token, by id: distinct."""

    @property
    def never_written(self) -> list[int]:
        """Return the ids that a model must not generate: special ids that do not end a text."""
        return sorted(self.special_ids - self.stop_ids)

    @property
    def stop_ids(self) -> frozenset[int]:
        """Return the ids that end what a language model writes."""
        return frozenset((self.eos_id, self.start_id))

    @property
    def fingerprint(self) -> str:
        """Return a hash of the model: equal fingerprints mean equal tokens."""
        return hashlib.sha256(self.model).hexdigest()[:16]

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without bos and eos."""

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many texts, on all cores; equal to `[encode(text) for text in texts]`."""

    @abstractmethod
    def spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the token ids and their spans [start, end) in characters; all bytes of a character have its span."""

    @abstractmethod
    def piece_bytes(self, token: int) -> bytes:
        """Return the UTF-8 bytes of a token, before `unescape`; empty for special tokens but <unk>."""

    def unescape(self, text: str) -> str:
        """Return the text that decoded bytes stand for."""
        return text

    @property
    @abstractmethod
    def byte_lengths(self) -> NDArray[np.int64]:
        """Return the number of UTF-8 bytes of each token's text, [vocab_size] int64; 0 for special tokens but <unk>."""

    def decode(self, ids: Iterable[int]) -> str:
        """Decode token ids; special tokens give no text, <unk> and invalid byte sequences give U+FFFD."""
        return self.unescape(b"".join(map(self.piece_bytes, ids)).decode("utf-8", errors="replace"))

    @cached_property
    def texts(self) -> list[str]:
        """Return what each token decodes to by itself, by id."""
        return [self.decode([token]) for token in range(self.vocab_size)]

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return display names of tokens: spaces as ▁, control characters as symbols (↵ ⇥), bytes as <0xE3>."""

    @abstractmethod
    def text_pieces(self) -> dict[str, int]:
        """Return the ids of all tokens that are text by their spelling, spaces as ▁."""
