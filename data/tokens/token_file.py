"""Store tokens on disk: a flat file of uint16 or uint32, read through a memory map."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.unsignedinteger[Any]]
"""A 1-d array of uint16 or uint32 token ids."""


def token_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """Return the smallest type that holds every id."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


def open_tokens(path: Path, vocab_size: int) -> Tokens:
    """Memory-map a token file, 1-d, read-only; an empty file, which cannot be mapped, gives an empty array."""
    dtype = token_dtype(vocab_size)
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")


class TokenWriter:
    """Context manager that appends tokens to a file; counts all tokens (`count`) and <unk> tokens (`unknown`)."""

    def __init__(self, path: Path, vocab_size: int, unk_id: int) -> None:
        """unk_id: of the tokenizer; -1 if it has none."""
        self._unk_id = unk_id
        self._dtype = token_dtype(vocab_size)
        self._file = path.open("wb")
        self._sha256 = hashlib.sha256()
        self.count = 0
        self.unknown = 0

    def write(self, rows: Sequence[Sequence[int]]) -> None:
        """Append the tokens of all rows, concatenated."""
        tokens = np.fromiter(chain.from_iterable(rows), dtype=self._dtype)
        tokens.tofile(self._file)
        self._sha256.update(tokens.data)
        self.count += len(tokens)
        self.unknown += int((tokens == self._unk_id).sum())

    def digest(self) -> str:
        """Return the hash of the tokens so far."""
        return self._sha256.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
