"""KV caches of static shape: every step uses the same shapes at the same addresses, as a CUDA graph requires.

Lengths and write positions are tensors on the device. Attention covers, under a mask, the smallest power of two of keys
that holds the longest row: at most twice the keys needed, in few distinct shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from model.cache import KVCache

_SMALLEST = 128
"""Minimum number of tokens that attention covers: fewer would add shapes to capture and save almost no time."""


def padded_length(tokens: int) -> int:
    """Return the number of keys that attention covers for `tokens` tokens: a power of two."""
    return max(_SMALLEST, 1 << (tokens - 1).bit_length())


class StaticCache(KVCache):
    """A cache of sequences of different lengths, each of which grows by one token per step."""

    def __init__(self, filled: KVCache, lengths: Sequence[int], capacity: int) -> None:
        """Copy the first `lengths[b]` tokens of row b of a cache, with room for `capacity` tokens per row."""
        super().__init__(padded_length(capacity))
        self.width = 0
        """Number of keys that attention covers."""
        self._keys = [self._copied(store, max(lengths)) for store in filled._keys]
        self._values = [self._copied(store, max(lengths)) for store in filled._values]
        if filled._inputs is not None:
            self._inputs = filled._inputs.new_zeros(len(lengths), 1 + self.capacity, filled._inputs.shape[2])
            self._inputs[:, : max(lengths) + 1] = filled._inputs[:, : max(lengths) + 1]
        device = self._keys[0].device
        self.row_lengths: Tensor = torch.tensor(lengths, device=device)
        self._rows = torch.arange(len(lengths), device=device)
        self._columns = torch.arange(self.capacity, device=device)

    def cover(self, tokens: int) -> None:
        """Make attention cover at least this many tokens from the next step on; the caller tracks the longest row."""
        self.width = padded_length(tokens)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Append one new token per row, as in `KVCache`: key and value [B, Hkv, 1, D]."""
        if key.shape[2] != 1:
            raise ValueError(f"a static cache grows by one token at a time, not by {key.shape[2]}")
        keys, values = self._keys[layer], self._values[layer]
        keys[self._rows, :, self.row_lengths] = key[:, :, 0]
        values[self._rows, :, self.row_lengths] = value[:, :, 0]
        if layer == 0:
            self._mask = self._columns[: self.width] <= self.row_lengths.unsqueeze(1)  # [B, width]
        return keys.narrow(2, 0, self.width), values.narrow(2, 0, self.width), self._mask

    def advance(self, tokens: int) -> None:
        """Count the token that every layer has appended."""
        self.row_lengths.add_(tokens)

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """Keep the first `lengths[b]` tokens of row b."""
        self.row_lengths.copy_(torch.tensor(lengths))

    def keep(self, rows: Tensor) -> NoReturn:
        """Raise TypeError: a static cache keeps all its rows."""
        raise TypeError("the rows of a static cache cannot change")

    def _copied(self, store: Tensor, length: int) -> Tensor:
        """Return the first `length` tokens followed by zeros: 0 times uninitialised memory can be NaN."""
        batch, heads, _, width = store.shape
        copied = store.new_zeros(batch, heads, self.capacity, width)
        copied[:, :, :length] = store[:, :, :length]
        return copied


class StaticBeamCache(KVCache):
    """`BeamCache` with static shapes: a row is a sentence, and each step adds one token for each of K hypotheses."""

    def __init__(self, steps: int, beam_size: int, device: torch.device) -> None:
        """Allocate room for `steps` tokens of each of `beam_size` hypotheses."""
        super().__init__(padded_length(steps) * beam_size)
        self.width = 0
        """Number of steps that attention covers."""
        self.steps = torch.zeros(1, dtype=torch.int64, device=device)
        """Number of tokens in each hypothesis, [1]."""
        self._hypotheses = torch.arange(beam_size, device=device)
        self._own = torch.eye(beam_size, dtype=torch.bool, device=device)  # [K, K]
        self._columns = self._hypotheses  # [K] columns of the current step's tokens
        self._ancestors = torch.empty(0)  # [B, K, capacity] bool: the tokens of each hypothesis

    def cover(self, steps: int) -> None:
        """Make attention cover at least this many steps from the next step on."""
        self.width = padded_length(steps)

    def positions(self, tokens: int) -> tuple[int | Tensor, int]:
        """Return the single position of all tokens of a step, [1]."""
        return self.steps, 1

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Append key and value [B, Hkv, K, D], as in `KVCache`; the returned mask is [B, K, S]."""
        batch, heads, beam_size, width = key.shape
        if layer == len(self._keys):
            self._keys.append(key.new_zeros(batch, heads, self.capacity, width))
            self._values.append(value.new_zeros(batch, heads, self.capacity, width))
        covered = self.width * beam_size
        if layer == 0:
            if not self._ancestors.numel():
                self._ancestors = self._own.new_zeros(batch, beam_size, self.capacity)
            self._columns = self.steps * beam_size + self._hypotheses
            self._ancestors.index_copy_(2, self._columns, self._own.expand(batch, -1, -1))
            self._mask = self._ancestors[:, :, :covered]
        keys = self._keys[layer].index_copy_(2, self._columns, key)
        values = self._values[layer].index_copy_(2, self._columns, value)
        return keys.narrow(2, 0, covered), values.narrow(2, 0, covered), self._mask

    def advance(self, tokens: int) -> None:
        """Count a step."""
        self.steps.add_(1)

    def follow(self, parents: Tensor) -> None:
        """Make hypothesis k of sentence b continue hypothesis `parents[b, k]`; parents [B, K] int64."""
        covered = self._ancestors[:, :, : self.width * len(self._hypotheses)]
        covered.copy_(covered.gather(1, parents.unsqueeze(-1).expand(-1, -1, covered.shape[2])))

    def keep(self, rows: Tensor) -> NoReturn:
        """Raise TypeError: a static cache keeps all its rows."""
        raise TypeError("the rows of a static cache cannot change")
