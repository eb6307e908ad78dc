"""Texts that a GPU writes without a pause: the step that reads a token also chooses the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from generation.cuda.graph import KERNELS, Readback, Replay
from generation.cuda.static_cache import StaticCache
from generation.growing_texts import Texts
from generation.sampling_config import SamplingConfig
from generation.token_choice import Chances, choose
from model.cache import KVCache
from model.gpt import GPT


class LockstepTexts(Texts):
    """`Texts` whose step has one shape and needs nothing from Python; the same tokens, chosen by the same chances.

    All rows go on to the end. A text that has ended is written on and its tokens are ignored: a step reads the same
    weights for few rows as for many, and another number of rows would be another shape to record.
    """

    def __init__(
        self,
        model: GPT,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        chances: Chances,
        banned: Tensor,
        seen: Tensor | None,
    ) -> None:
        """banned [n] int64 ids; seen [R, V] bool, tokens that each text holds, or None where that does not matter."""
        super().__init__(model, prompts, config.max_tokens)
        self.config, self.chances, self.banned, self.seen = config, chances, banned, seen
        self.cache: StaticCache = StaticCache(self.cache, [len(window) for window in self.windows], self.capacity)
        self.replay = Replay(self.device)
        # What steps read and write, always at the same address.
        self.uniform = chances.draw().to(self.device)  # [R, STEPS]
        self.count = torch.zeros(1, dtype=torch.int64, device=self.device)  # tokens chosen for each text
        self.chosen = torch.zeros(len(prompts), dtype=torch.int64, device=self.device)  # [R]
        self._choose(self.logits)

    def write(self) -> Iterator[list[int]]:
        """`config.max_tokens` times the next token of every text, [R]. The device is a step ahead of what is
        yielded."""
        for number in range(1, self.config.max_tokens + 1):
            chosen = Readback(self.chosen)
            if number < self.config.max_tokens:
                self._go_on(number)
            tokens: list[int] = chosen.values()
            for window, token in zip(self.windows, tokens, strict=True):
                window.append(token)
            yield tokens

    def _go_on(self, number: int) -> None:
        """Read the tokens chosen last, which are not in `windows` yet, and choose the next; `number` have
        been chosen."""
        if number % Chances.STEPS == 0:
            self.uniform.copy_(self.chances.draw())
        self.forget()
        self.cache.see(max(map(len, self.windows)) + 1)
        self.replay(self.step, self.cache.width)

    @sdpa_kernel(KERNELS)
    def _read(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        return super()._read(windows)

    @sdpa_kernel(KERNELS)
    def step(self) -> None:
        """What is replayed: read the tokens chosen last, choose the next."""
        self._choose(self.model(self.chosen.unsqueeze(1), self.cache)[:, -1])

    def _choose(self, logits: Tensor) -> None:
        """logits [R, V] of the next token."""
        if len(self.banned):
            logits = logits.index_fill_(-1, self.banned, float("-inf"))
        uniform = self.uniform.index_select(1, self.count % Chances.STEPS).squeeze(1)  # [R]
        self.chosen.copy_(choose(logits, uniform, self.config, self.seen))
        if self.seen is not None:
            self.seen.scatter_(1, self.chosen.unsqueeze(1), True)
        self.count.add_(1)
