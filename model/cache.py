"""The key/value cache: what attention has to remember so that each new token costs one step instead of a whole pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class KVCache:
    """Keys and values of the tokens so far, per layer, in memory laid out once.

    The rows of a batch may be of different lengths (`set_lengths`); they then grow by one token at a time, each at its
    own end, and a mask hides what lies behind the end of the shorter ones. For an encoder-decoder the cache also keeps
    the source as the cross-attention sees it, so that the encoder runs once per sentence.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        """The most tokens that a row can hold."""
        self.length = 0
        """Tokens in the longest row."""
        self.row_lengths: Tensor | None = None
        """Tokens in each row, [B] int64, where they differ; None while all rows are equally long."""
        self.memory: list[tuple[Tensor, Tensor]] = []
        """Per decoder layer, cross-attention's keys and values of the source, each [B, Hkv, S, D]; empty for a GPT."""
        self.source_mask: Tensor | None = None
        """[B, S] bool, True = real token of the source; None when all are."""
        self._keys: list[Tensor] = []  # per layer [B, Hkv, capacity, D]
        self._values: list[Tensor] = []  # per layer [B, Hkv, capacity, D]
        self._key_mask: Tensor | None = None  # [B, length + 1], for the step under way

    @property
    def start(self) -> int | Tensor:
        """Position of the next token: one number, or [B] where the rows differ."""
        return self.length if self.row_lengths is None else self.row_lengths

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Add keys and values [B, Hkv, T, D] of T new tokens to a layer and return all that it holds.

        Returns keys and values [B, Hkv, S, D] (views of the cache) and their mask [B, S] bool, None when all are real.
        The tokens count from `advance` on, which the model calls after its last layer. Raises ValueError when they do
        not fit.
        """
        batch, heads, tokens, width = key.shape
        end = self.length + tokens
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens per row, {end} are needed")
        if layer == len(self._keys):
            self._keys.append(key.new_empty(batch, heads, self.capacity, width))
            self._values.append(value.new_empty(batch, heads, self.capacity, width))
        keys, values = self._keys[layer], self._values[layer]
        if self.row_lengths is None:
            keys[:, :, self.length : end] = key
            values[:, :, self.length : end] = value
        else:
            if tokens != 1:
                raise ValueError(f"rows of different lengths grow by one token at a time, not by {tokens}")
            # Shorter rows leave the new column unwritten: hidden, but 0 times what uninitialised memory holds may be NaN.
            keys[:, :, self.length] = 0
            values[:, :, self.length] = 0
            rows = torch.arange(batch, device=key.device)
            keys[rows, :, self.row_lengths] = key[:, :, 0]
            values[rows, :, self.row_lengths] = value[:, :, 0]
            if self._key_mask is None:
                self._key_mask = torch.arange(end, device=key.device) <= self.row_lengths.unsqueeze(1)
        return keys[:, :, :end], values[:, :, :end], self._key_mask

    def advance(self, tokens: int) -> None:
        """Count the tokens that every layer has appended."""
        self.length += tokens
        self._key_mask = None
        if self.row_lengths is not None:
            self.row_lengths = self.row_lengths + tokens

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """Keep the first `lengths[b]` tokens of row b: after a right-padded prompt, or to forget the last tokens."""
        self.length = max(lengths)
        same = min(lengths) == self.length
        self.row_lengths = None if same else torch.tensor(lengths, device=self._keys[0].device)

    def reorder(self, rows: Tensor) -> None:
        """Make row i what row `rows[i]` was; `rows` [B'] int64 may repeat some (beams) and omit others (finished)."""
        if len(rows) == len(self._keys[0]) and torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            return
        self._keys = [self._rows_of(store, rows) for store in self._keys]
        self._values = [self._rows_of(store, rows) for store in self._values]
        if self.row_lengths is not None:
            self.row_lengths = self.row_lengths[rows]

    def reorder_sources(self, rows: Tensor) -> None:
        """The same for the source, whose rows are sentences where those of the target may be beams."""
        self.memory = [(key[rows], value[rows]) for key, value in self.memory]
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]

    def replace_rows(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite rows [B'] by those of another cache of [B'] rows; `set_lengths` must follow."""
        for mine, theirs in zip(self._keys + self._values, other._keys + other._values, strict=True):
            mine[rows, :, : other.length] = theirs[:, :, : other.length]

    def _rows_of(self, store: Tensor, rows: Tensor) -> Tensor:
        """Copy the filled part only: the rest of a fresh tensor costs nothing until it is written."""
        selected = store.new_empty(len(rows), *store.shape[1:])
        torch.index_select(store[:, :, : self.length], 0, rows, out=selected[:, :, : self.length])
        return selected
