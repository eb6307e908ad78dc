"""Batched sampling with a CUDA graph per step: samples the same tokens as the eager form in `generation.sampling`.

The step that runs the model on a token also samples the next token, so that the GPU never waits for Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from generation.config import SamplingConfig
from generation.cuda.graph import ATTENTION_BACKENDS, GraphRunner, has_graphs
from generation.cuda.host_copy import HostCopy
from generation.cuda.static_cache import StaticCache
from generation.sampling import Sequences, UniformDraws, check_request, next_token, tokens_in
from model.cache import KVCache
from model.gpt import GPT


@torch.inference_mode()
def generate_with_graphs(
    model: GPT,
    prompts: Sequence[Sequence[int]],
    config: SamplingConfig,
    *,
    seed: int = 0,
    stop_ids: Collection[int] = (),
    banned_ids: Collection[int] = (),
) -> Iterator[list[int | None]]:
    """Continue every prompt: arguments, results and errors of `generation.sampling.generate`."""
    check_request(model, prompts, config)
    device = next(model.parameters()).device
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=device)
    penalised = config.repetition_penalty != 1.0
    seen = tokens_in(prompts, model.vocab_size, stop_ids).to(device) if penalised else None
    sampling = GraphSampling(model, prompts, config, UniformDraws(len(prompts), seed), banned, seen)
    yield from until_all_end(sampling.steps(), stop_ids)


def until_all_end(steps: Iterator[list[int]], stop_ids: Collection[int]) -> Iterator[list[int | None]]:
    """Yield the tokens of each step, None for texts that have ended, until all texts have ended."""
    ended: set[int] = set()
    for tokens in steps:
        ended.update(row for row, token in enumerate(tokens) if token in stop_ids)
        yield [None if row in ended else token for row, token in enumerate(tokens)]
        if len(ended) == len(tokens):
            return


class GraphSampling(Sequences):
    """`Sequences` with a step of static shape that needs no input from Python.

    All rows stay in the batch: a sequence that has ended is continued and its tokens are ignored. A step reads the same
    weights for few rows as for many, and each number of rows would require another graph. (The CPU version removes
    finished sequences, which is faster there.)
    """

    def __init__(
        self,
        model: GPT,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        draws: UniformDraws,
        banned: Tensor,
        seen: Tensor | None,
    ) -> None:
        """banned [n] int64 ids; seen [R, V] bool, tokens already in each sequence; None without repetition penalty."""
        super().__init__(model, prompts, config.max_tokens)
        self.config, self.draws, self.banned, self.seen = config, draws, banned, seen
        self.cache: StaticCache = StaticCache(self.cache, [len(window) for window in self.windows], self.capacity)
        self.run_step = GraphRunner(self.device)
        # Inputs and outputs of the steps, at fixed addresses.
        self.uniform = draws.draw().to(self.device)  # [R, STEPS]
        self.count = torch.zeros(1, dtype=torch.int64, device=self.device)  # tokens sampled per sequence
        self.sampled = torch.zeros(len(prompts), dtype=torch.int64, device=self.device)  # [R]
        self._sample(self.logits)

    @staticmethod
    def applies(device: torch.device) -> bool:
        """Whether a device can do this: CUDA, except in deterministic mode, which forbids CUDA's cumsum."""
        return has_graphs(device) and not torch.are_deterministic_algorithms_enabled()

    def steps(self) -> Iterator[list[int]]:
        """Yield the next token of every sequence, [R], `config.max_tokens` times; the device runs one step ahead."""
        for number in range(1, self.config.max_tokens + 1):
            sampled = HostCopy(self.sampled)
            if number < self.config.max_tokens:
                self._queue_step(number)
            tokens: list[int] = sampled.values()
            for window, token in zip(self.windows, tokens, strict=True):
                window.append(token)
            yield tokens

    def _queue_step(self, number: int) -> None:
        """Queue the model on the last tokens, which are not in `windows` yet; `number` tokens have been sampled."""
        if number % UniformDraws.STEPS == 0:
            self.uniform.copy_(self.draws.draw())
        self.shift_context()
        self.cache.cover(max(map(len, self.windows)) + 1)
        self.run_step(self.step, self.cache.width)

    @sdpa_kernel(ATTENTION_BACKENDS)
    def _prefill(self, windows: list[list[int]]) -> tuple[KVCache, Tensor]:
        return super()._prefill(windows)

    @sdpa_kernel(ATTENTION_BACKENDS)
    def step(self) -> None:
        """Run the captured step: the model on the last tokens, then sampling of the next."""
        self._sample(self.model(self.sampled.unsqueeze(1), self.cache)[:, -1])

    def _sample(self, logits: Tensor) -> None:
        """Sample the next token from logits [R, V]."""
        if len(self.banned):
            logits = logits.index_fill_(-1, self.banned, float("-inf"))
        uniform = self.uniform.index_select(1, self.count % UniformDraws.STEPS).squeeze(1)  # [R]
        self.sampled.copy_(next_token(logits, uniform, self.config, self.seen))
        if self.seen is not None:
            self.seen.scatter_(1, self.sampled.unsqueeze(1), True)
        self.count.add_(1)
