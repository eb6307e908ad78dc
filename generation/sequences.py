"""Manage the token sequences of batched sampling: their KV cache and the logits of the next tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.cache import KVCache
from model.gpt import GPT


class Sequences:
    """A batch of token sequences that grow by one token per step."""

    def __init__(self, model: GPT, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        self.model = model
        self.context = model.config.context
        self.capacity = min(self.context, max(map(len, prompts)) + max_tokens)
        self.device = next(model.parameters()).device
        self.windows = [list(prompt[-self.context :]) for prompt in prompts]
        self.cache, self.logits = self._prefill(self.windows)  # logits [R, V] of the next token of each sequence

    def extend(self, tokens: list[int]) -> None:
        """Append one token to each sequence and run the model on the new tokens."""
        self.shift_context()
        for window, token in zip(self.windows, tokens, strict=True):
            window.append(token)
        inputs = torch.tensor(tokens, device=self.device).unsqueeze(1)  # [R, 1]
        self.logits = self.model(inputs, self.cache)[:, -1]

    def keep(self, rows: list[int]) -> None:
        """Keep only these sequences."""
        self.windows = [self.windows[row] for row in rows]
        self.cache.keep(torch.tensor(rows, device=self.device))
        self.cache.set_lengths([len(window) for window in self.windows])

    def shift_context(self) -> None:
        """Truncate sequences that fill the context to their last half, and recompute keys and values."""
        full = [row for row, window in enumerate(self.windows) if len(window) == self.context]
        if full:
            for row in full:
                self.windows[row] = self.windows[row][-(self.context // 2) :]
            cache, _ = self._prefill([self.windows[row] for row in full])
            self.cache.replace_rows(torch.tensor(full, device=self.device), cache)
            self.cache.set_lengths([len(window) for window in self.windows])

    def _prefill(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """Return a cache filled with the windows, and the logits [R, V] after each window.

        Samples of one prompt begin alike: equal windows go through the model only once.
        """
        distinct = list(map(list, dict.fromkeys(map(tuple, windows))))
        cache, logits = self._prefill_distinct(distinct)
        if len(distinct) < len(windows):
            rows = torch.tensor([distinct.index(window) for window in windows], device=self.device)
            cache.keep(rows)
            cache.set_lengths([len(window) for window in windows])
            logits = logits[rows]
        return cache, logits

    def _prefill_distinct(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """Run `_prefill` without deduplicating windows. Causal attention never sees the padding on the right."""
        lengths = [len(window) for window in windows]
        tokens = pad_sequence([torch.tensor(window) for window in windows], batch_first=True)  # [R, T]
        cache = self.model.new_cache(self.capacity)
        features = self.model.features(tokens.to(self.device), cache)  # [R, T, C]
        cache.set_lengths(lengths)
        last = torch.tensor(lengths, device=self.device) - 1
        return cache, self.model.logits(features[torch.arange(len(windows), device=self.device), last])
