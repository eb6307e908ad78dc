"""Store the token rows of one language: a flat token file and the offsets of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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


def gathered(tokens: Tokens, starts: Ints, lengths: Ints, rows: Ints) -> TokenRows:
    """Concatenate parts of a flat array: part i is tokens[starts[i] : starts[i] + lengths[i]].

    rows: the first part of each row, and the number of parts at the end.
    """
    ends = np.append(0, np.cumsum(lengths))
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    return TokenRows(tokens[np.repeat(starts, lengths) + within], ends[rows])


def joined(first: TokenRows, second: TokenRows) -> TokenRows:
    """Return the rows of both."""
    tokens: Tokens = np.concatenate((first.tokens, second.tokens))
    return TokenRows(tokens, np.concatenate((first.offsets, first.offsets[-1] + second.offsets[1:])))


def prefixed(rows: TokenRows, token: int) -> TokenRows:
    """Put a token before each row."""
    return TokenRows(np.insert(rows.tokens, rows.offsets[:-1], token), rows.offsets + np.arange(len(rows.offsets)))


class TokenRowWriter(TokenWriter):
    """Writes `<name>.bin` and `<name>.offsets.npy`; a context manager."""

    def __init__(self, folder: Path, name: str, vocab_size: int, unk_id: int) -> None:
        super().__init__(folder / f"{name}.bin", vocab_size, unk_id)
        self._path = folder / f"{name}.offsets.npy"
        self._lengths: list[int] = []

    @property
    def rows(self) -> int:
        """Return the number of rows so far."""
        return len(self._lengths)

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Append rows."""
        super().write(rows)
        self._lengths += map(len, rows)

    def digest(self) -> str:
        """Return the hash of the tokens and the offsets so far."""
        return hashlib.sha256(self._sha256.digest() + _offsets(self._lengths).tobytes()).hexdigest()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        np.save(self._path, _offsets(self._lengths))


def _offsets(lengths: Iterable[int]) -> Ints:
    return np.cumsum([0, *lengths], dtype=np.int64)


def open_token_rows(folder: Path, name: str, vocab_size: int) -> TokenRows:
    """Memory-map the rows written by a TokenRowWriter."""
    return TokenRows(open_tokens(folder / f"{name}.bin", vocab_size), np.load(folder / f"{name}.offsets.npy"))


def token_rows_of(rows: Sequence[Sequence[int]], vocab_size: int) -> TokenRows:
    """Build token rows in memory."""
    tokens: Tokens = np.fromiter(chain.from_iterable(rows), dtype=token_dtype(vocab_size))
    return TokenRows(tokens, _offsets(map(len, rows)))
