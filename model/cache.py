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
        self._mask: Tensor | None = None  # what `append` returns as mask, for the step under way

    def positions(self, tokens: int) -> tuple[int | Tensor, int]:
        """Where the next `tokens` tokens stand: the first position, a number or [B], and how many positions follow."""
        return self.length if self.row_lengths is None else self.row_lengths, tokens

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Add keys and values [B, Hkv, T, D] of T new tokens to a layer and return all that it holds.

        Returns keys and values [B, Hkv, S, D] (views of the cache) and their mask, bool, None when all are seen: [B,
        S], or [B, T, S] where it differs between the new tokens and their order means nothing. The tokens count from
        `advance` on, which the model calls after its last layer. Raises ValueError when they do not fit.
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
            keys.narrow(2, self.length, tokens).copy_(key)
            values.narrow(2, self.length, tokens).copy_(value)
        else:
            if tokens != 1:
                raise ValueError(f"rows of different lengths grow by one token at a time, not by {tokens}")
            # Shorter rows leave the new column unwritten: hidden, but 0 times what uninitialised memory holds may be
            # NaN.
            keys[:, :, self.length] = 0
            values[:, :, self.length] = 0
            rows = torch.arange(batch, device=key.device)
            keys[rows, :, self.row_lengths] = key[:, :, 0]
            values[rows, :, self.row_lengths] = value[:, :, 0]
        if layer == 0:
            self._mask = self._make_mask(tokens)
        return keys.narrow(2, 0, end), values.narrow(2, 0, end), self._mask  # narrow: half the time of an index

    def advance(self, tokens: int) -> None:
        """Count the tokens that every layer has appended."""
        self.length += tokens
        if self.row_lengths is not None:
            self.row_lengths = self.row_lengths + tokens

    def set_lengths(self, lengths: Sequence[int]) -> None:
        """Keep the first `lengths[b]` tokens of row b: after a right-padded prompt, or to forget the last tokens."""
        self.length = max(lengths)
        same = min(lengths) == self.length
        self.row_lengths = None if same else torch.tensor(lengths, device=self._keys[0].device)

    def keep(self, rows: Tensor) -> None:
        """Make row i what row `rows[i]` was, its source too; `rows` [B'] int64 leaves out those that have finished."""
        self._keys = [self._rows_of(store, rows) for store in self._keys]
        self._values = [self._rows_of(store, rows) for store in self._values]
        if self.row_lengths is not None:
            self.row_lengths = self.row_lengths[rows]
        self.memory = [(key[rows], value[rows]) for key, value in self.memory]
        if self.source_mask is not None:
            self.source_mask = self.source_mask[rows]

    def replace_rows(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite rows [B'] by those of another cache of [B'] rows; `set_lengths` must follow."""
        for mine, theirs in zip(self._keys + self._values, other._keys + other._values, strict=True):
            mine[rows, :, : other.length] = theirs[:, :, : other.length]

    def _make_mask(self, tokens: int) -> Tensor | None:
        if self.row_lengths is None:
            return None
        return torch.arange(self.length + tokens, device=self.row_lengths.device) <= self.row_lengths.unsqueeze(1)

    def _rows_of(self, store: Tensor, rows: Tensor) -> Tensor:
        """Copy the filled part only: the rest of a fresh tensor costs nothing until it is written."""
        selected = store.new_empty(len(rows), *store.shape[1:])
        torch.index_select(store[:, :, : self.length], 0, rows, out=selected[:, :, : self.length])
        return selected


class BeamCache(KVCache):
    """The cache of a beam search: a row is a sentence, and each step adds one token for each of its hypotheses.

    All of them stand at the same position. Nothing moves when hypotheses change places, die or divide: a table says
    which tokens of the row each one descends from, and is all that `follow` reorders. Attention then takes a sentence's
    hypotheses as queries of the same keys, a matrix product where rows of their own would be as many vector products.
    """

    def __init__(self, steps: int, beam_size: int) -> None:
        """Room for `steps` tokens of each of `beam_size` hypotheses."""
        super().__init__(steps * beam_size)
        self.steps = 0
        """Tokens in each hypothesis."""
        self._ancestors: Tensor | None = None  # [B, K, length] bool: what each hypothesis of the next step sees

    def positions(self, tokens: int) -> tuple[int | Tensor, int]:
        """All tokens of a step stand at one position."""
        return self.steps, 1

    def advance(self, tokens: int) -> None:
        """Count a step of `tokens` hypotheses."""
        super().advance(tokens)
        self.steps += 1
        self._ancestors = self._mask

    def follow(self, parents: Tensor) -> None:
        """Hypothesis k of sentence b will go on from what was hypothesis `parents[b, k]`; parents [B, K] int64."""
        assert self._ancestors is not None
        index = parents.unsqueeze(-1).expand(-1, -1, self.length)  # [B, K, length]
        self._ancestors = self._ancestors.gather(1, index)

    def keep(self, rows: Tensor) -> None:
        """Go on with these sentences only."""
        super().keep(rows)
        if self._ancestors is not None:
            self._ancestors = self._ancestors[rows]

    def _make_mask(self, tokens: int) -> Tensor | None:
        """[B, K, S]: each hypothesis sees its ancestors and itself."""
        batch, device = self._keys[0].shape[0], self._keys[0].device
        own = torch.eye(tokens, dtype=torch.bool, device=device).expand(batch, -1, -1)  # [B, K, K]
        return own if self._ancestors is None else torch.cat((self._ancestors, own), dim=-1)
