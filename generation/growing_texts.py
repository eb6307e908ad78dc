"""The texts that a GPT is writing: what each still sees of itself, and the cache that holds it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.cache import KVCache
from model.gpt import GPT


class Texts:
    """Texts that grow by one token at a time, those that have ended left out."""

    def __init__(self, model: GPT, prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
        self.model = model
        self.context = model.config.context
        self.capacity = min(self.context, max(map(len, prompts)) + max_tokens)
        self.device = next(model.parameters()).device
        self.windows = [list(prompt[-self.context :]) for prompt in prompts]
        self.cache, self.logits = self._read(self.windows)  # logits [R, V] of the next token of each text

    def extend(self, tokens: list[int]) -> None:
        """Append one token to each text. A text that fills the context first forgets all but its last half."""
        self.forget()
        for window, token in zip(self.windows, tokens, strict=True):
            window.append(token)
        inputs = torch.tensor(tokens, device=self.device).unsqueeze(1)  # [R, 1]
        self.logits = self.model(inputs, self.cache)[:, -1]

    def keep(self, rows: list[int]) -> None:
        """Go on with these texts only."""
        self.windows = [self.windows[row] for row in rows]
        self.cache.keep(torch.tensor(rows, device=self.device))
        self.cache.set_lengths([len(window) for window in self.windows])

    def forget(self) -> None:
        """Cut the texts that fill the context to their last half, and read that anew."""
        full = [row for row, window in enumerate(self.windows) if len(window) == self.context]
        if full:
            for row in full:
                self.windows[row] = self.windows[row][-(self.context // 2) :]
            cache, _ = self._read([self.windows[row] for row in full])
            self.cache.replace_rows(torch.tensor(full, device=self.device), cache)
            self.cache.set_lengths([len(window) for window in self.windows])

    def _read(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """A cache filled with the windows, and the logits [R, V] after each.

        Samples of one prompt begin alike: what is the same is read once, and repeated.
        """
        distinct = list(map(list, dict.fromkeys(map(tuple, windows))))
        cache, logits = self._read_distinct(distinct)
        if len(distinct) < len(windows):
            rows = torch.tensor([distinct.index(window) for window in windows], device=self.device)
            cache.keep(rows)
            cache.set_lengths([len(window) for window in windows])
            logits = logits[rows]
        return cache, logits

    def _read_distinct(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        """`_read`, each window by itself. Padding on the right is seen by nobody."""
        lengths = [len(window) for window in windows]
        tokens = torch.zeros(len(windows), max(lengths), dtype=torch.int64)
        for row, window in enumerate(windows):
            tokens[row, : len(window)] = torch.tensor(window)
        cache = self.model.new_cache(self.capacity)
        features = self.model.features(tokens.to(self.device), cache)  # [R, T, C]
        cache.set_lengths(lengths)
        last = torch.tensor(lengths, device=self.device) - 1
        return cache, self.model.logits(features[torch.arange(len(windows), device=self.device), last])
