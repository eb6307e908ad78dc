"""The key/value cache: with it, decoding a new token costs one step instead of a full forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class KVCache:
    """Keys and values of the tokens decoded so far, per layer, in memory allocated once.

    The rows of a batch may differ in length (`set_lengths`). Each row then grows by one token at a time at its own
    end, and a mask hides the unused slots of shorter rows. For an encoder-decoder the cache also stores the keys and
    values of the source for cross-attention, so that the encoder runs once per sentence.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        """Maximum number of tokens per row."""
        self.length = 0
        """Number of tokens in the longest row."""
        self.row_lengths: Tensor | None = None
        """Number of tokens in each row, [B] int64; None while all rows have the same length."""
        self.source_keys_values: list[tuple[Tensor, Tensor]] = []
        """Cross-attention keys and values of the source per decoder layer, each [B, Hkv, S, D]; empty for a GPT."""
        self.source_mask: Tensor | None = None
        """[B, S] bool, True = real source token; None if there is no padding."""
        self._keys: list[Tensor] = []  # per layer [B, Hkv, capacity, D]
        self._values: list[Tensor] = []  # per layer [B, Hkv, capacity, D]
        self._inputs: Tensor | None = None  # for `TokenShift`: a zero vector and the inputs, [B, 1 + capacity, C]
        self._mask: Tensor | None = None  # the mask that `append` returns during the current step

    def positions(self, tokens: int) -> tuple[int | Tensor, int]:
        """Return the first position of the next `tokens` tokens (int or [B]) and the number of distinct positions:
        `tokens`, except in a `BeamCache`."""
        return self.length if self.row_lengths is None else self.row_lengths, tokens

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Add keys and values [B, Hkv, T, D] of T new tokens to a layer and return all of the layer's keys and values.

        Returns keys and values [B, Hkv, S, D] (views of the cache) and a bool mask: None if every key is visible, else
        [B, S], or [B, T, S] if the mask differs between the new tokens and their order is irrelevant. The tokens are
        counted by `advance`, which the model calls after its last layer. Raises ValueError if they do not fit.
        """
        batch, heads, tokens, width = key.shape
        end = self._end(tokens)
        if layer == len(self._keys):
            self._keys.append(key.new_empty(batch, heads, self.capacity, width))
            self._values.append(value.new_empty(batch, heads, self.capacity, width))
        keys, values = self._keys[layer], self._values[layer]
        if self.row_lengths is None:
            keys.narrow(2, self.length, tokens).copy_(key)
            values.narrow(2, self.length, tokens).copy_(value)
        else:
            if tokens != 1:
                raise ValueError(f"rows of different lengths grow by one token at a time, not by {tokens}")
            # Zero the new column: it is masked in shorter rows, but 0 times uninitialised memory can be NaN.
            keys[:, :, self.length] = 0
            values[:, :, self.length] = 0
            rows = torch.arange(batch, device=key.device)
            keys[rows, :, self.row_lengths] = key[:, :, 0]
            values[rows, :, self.row_lengths] = value[:, :, 0]
        if layer == 0:
            self._mask = self._make_mask(tokens)
        return keys.narrow(2, 0, end), values.narrow(2, 0, end), self._mask  # narrow: faster than indexing

    def append_inputs(self, x: Tensor) -> Tensor:
        """Add the input vectors [B, T, C] of T new tokens; return that of the token before each, 0 for the first."""
        batch, tokens, width = x.shape
        self._end(tokens)
        if self._inputs is None:
            self._inputs = x.new_zeros(batch, 1 + self.capacity, width)
        if self.row_lengths is None:
            self._inputs.narrow(1, self.length + 1, tokens).copy_(x)
            return self._inputs.narrow(1, self.length, tokens)
        rows = torch.arange(batch, device=x.device)
        self._inputs[rows, self.row_lengths + 1] = x[:, 0]
        return self._inputs[rows, self.row_lengths].unsqueeze(1)

    def advance(self, tokens: int) -> None:
        """Count the tokens that every layer has appended."""
        self.length += tokens
        if self.row_lengths is not None:
            self.row_lengths = self.row_lengths + tokens

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """Keep the first `lengths[b]` tokens of row b: after a right-padded prompt, or to drop the last tokens."""
        self.length = max(lengths)
        same = min(lengths) == self.length
        self.row_lengths = None if same else torch.tensor(lengths, device=self._keys[0].device)

    def keep(self, rows: Tensor) -> None:
        """Replace row i, including its source, by row `rows[i]`; `rows` [B'] int64 omits finished rows."""
        self._keys = [self._rows_of(store, rows) for store in self._keys]
        self._values = [self._rows_of(store, rows) for store in self._values]
        if self._inputs is not None:
            self._inputs = self._inputs[rows]
        if self.row_lengths is not None:
            self.row_lengths = self.row_lengths[rows]
        self.source_keys_values = [(key[rows], value[rows]) for key, value in self.source_keys_values]
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]

    def replace_rows(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite rows [B'], without their sources, with the rows of another cache of B' rows; `set_lengths` must
        follow."""
        for mine, theirs in zip(self._keys + self._values, other._keys + other._values, strict=True):
            mine[rows, :, : other.length] = theirs[:, :, : other.length]
        if self._inputs is not None and other._inputs is not None:
            self._inputs[rows, : other.length + 1] = other._inputs[:, : other.length + 1]

    def _end(self, tokens: int) -> int:
        """Return the length with `tokens` more tokens. Raises ValueError if there is no room for them."""
        end = self.length + tokens
        if end > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens per row, but {end} are needed")
        return end

    def _make_mask(self, tokens: int) -> Tensor | None:
        if self.row_lengths is None:
            return None
        return torch.arange(self.length + tokens, device=self.row_lengths.device) <= self.row_lengths.unsqueeze(1)

    def _rows_of(self, store: Tensor, rows: Tensor) -> Tensor:
        """Copy only the filled part: the rest of a fresh tensor costs nothing until it is written."""
        selected = store.new_empty(len(rows), *store.shape[1:])
        torch.index_select(store[:, :, : self.length], 0, rows, out=selected[:, :, : self.length])
        return selected


class BeamCache(KVCache):
    """The cache of a beam search: a row is a sentence, and each step adds one token per hypothesis.

    All hypotheses are at the same position. No keys or values move when hypotheses are reordered, dropped or split: a
    table marks the tokens of the row that belong to each hypothesis, and `follow` reorders only this table. Attention
    then treats the hypotheses of a sentence as queries of the same keys: one matrix product instead of many
    matrix-vector products.
    """

    def __init__(self, steps: int, beam_size: int) -> None:
        """Allocate room for `steps` tokens of each of `beam_size` hypotheses."""
        super().__init__(steps * beam_size)
        self.steps = 0
        """Number of tokens in each hypothesis."""
        self._ancestors: Tensor | None = None  # [B, K, length] bool: tokens visible to each hypothesis in the next step

    def positions(self, tokens: int) -> tuple[int | Tensor, int]:
        """Return one position for all tokens of the step."""
        return self.steps, 1

    def advance(self, tokens: int) -> None:
        """Count a step of `tokens` hypotheses."""
        super().advance(tokens)
        self.steps += 1
        self._ancestors = self._mask

    def follow(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue from hypothesis `parents[b, k]`; parents [B, K] int64."""
        assert self._ancestors is not None
        index = parents.unsqueeze(-1).expand(-1, -1, self.length)  # [B, K, length]
        self._ancestors = self._ancestors.gather(1, index)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences."""
        super().keep(rows)
        if self._ancestors is not None:
            self._ancestors = self._ancestors[rows]

    def _make_mask(self, tokens: int) -> Tensor | None:
        """Return the mask [B, K, S]: each hypothesis sees its ancestors and itself."""
        batch, device = self._keys[0].shape[0], self._keys[0].device
        identity = torch.eye(tokens, dtype=torch.bool, device=device).expand(batch, -1, -1)  # [B, K, K]
        return identity if self._ancestors is None else torch.cat((self._ancestors, identity), dim=-1)
