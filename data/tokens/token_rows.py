"""Store the token rows of one language: a flat token file and the offsets of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.tokens.token_file import Tokens, TokenWriter, open_tokens, token_dtype

Ints = NDArray[np.int64]


@dataclass
class TokenRows:
    """Token rows of one language, flat: row i is tokens[offsets[i]:offsets[i + 1]], without bos and eos."""

    tokens: Tokens
    offsets: Ints

    @property
    def lengths(self) -> Ints:
        """Return the number of tokens of each row."""
        return np.diff(self.offsets)

    def padded(self, rows: Ints, width: int) -> Ints:
        """Return the tokens of the given rows, truncated or zero-padded to `width`, [len(rows), width]."""
        start = self.offsets[rows]
        real = np.arange(width) < np.minimum(self.offsets[rows + 1] - start, width)[:, None]
        if len(self.tokens) == 0:
            return np.zeros(real.shape, dtype=np.int64)
        flat = np.minimum(start[:, None] + np.arange(width), len(self.tokens) - 1)
        return np.where(real, self.tokens[flat].astype(np.int64), 0)


class TokenRowWriter:
    """Writes `<name>.bin` and `<name>.offsets.npy`; a context manager."""

    def __init__(self, folder: Path, name: str, vocab_size: int) -> None:
        self._writer = TokenWriter(folder / f"{name}.bin", vocab_size)
        self._lengths: list[int] = []
        self._offsets = folder / f"{name}.offsets.npy"

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Append rows."""
        self._writer.write(rows)
        self._lengths += map(len, rows)

    @property
    def unknown(self) -> int:
        """Return the number of <unk> tokens so far."""
        return self._writer.unknown

    @property
    def count(self) -> int:
        """Return the number of tokens so far."""
        return self._writer.count

    @property
    def sha256(self) -> str:
        """Return the hash of the rows so far."""
        return hashlib.sha256(self._writer.sha256.digest() + self._row_offsets().tobytes()).hexdigest()

    def _row_offsets(self) -> Ints:
        return np.cumsum([0, *self._lengths], dtype=np.int64)

    def __enter__(self) -> TokenRowWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()
        np.save(self._offsets, self._row_offsets())


def open_token_rows(folder: Path, name: str, vocab_size: int) -> TokenRows:
    """Memory-map the rows written by a TokenRowWriter."""
    return TokenRows(open_tokens(folder / f"{name}.bin", vocab_size), np.load(folder / f"{name}.offsets.npy"))


def token_rows_of(rows: Sequence[Sequence[int]], vocab_size: int) -> TokenRows:
    """Build token rows in memory."""
    tokens: Tokens = np.fromiter(chain.from_iterable(rows), dtype=token_dtype(vocab_size))
    return TokenRows(tokens, np.cumsum([0, *map(len, rows)], dtype=np.int64))
