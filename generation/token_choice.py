"""How the next token is chosen: pure filters on logits, and the chances that decide between what they leave."""

from __future__ import annotations

import torch
from torch import Tensor

from generation.sampling_config import SamplingConfig


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """logits [..., V] with those of the tokens in seen [..., V] bool made less likely (for a penalty above 1)."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of logits [..., V] and their token ids, both [..., k], in the order of the ids.

    Which of several equals at the border belong to them is left to the library.
    """
    ids = logits.topk(min(k, logits.shape[-1]), sorted=False).indices.sort(dim=-1).values
    return logits.gather(-1, ids), ids


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """logits [..., V] with -inf outside the smallest set of likeliest tokens whose probabilities sum to at least p."""
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    likelier = probabilities.cumsum(dim=-1) - probabilities  # [..., V]: probability of all tokens before this one
    ordered = ordered.masked_fill(likelier >= p, float("-inf"))  # the likeliest has 0 before it and stays
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def keep_min_p(logits: Tensor, fraction: float) -> Tensor:
    """logits [..., V] with -inf for tokens less likely than `fraction` times the likeliest one."""
    likeliest = logits.amax(dim=-1, keepdim=True)  # [..., 1]
    return logits.masked_fill((logits - likeliest).exp() < fraction, float("-inf"))


def choose(logits: Tensor, uniform: Tensor, config: SamplingConfig, seen: Tensor | None = None) -> Tensor:
    """One token per row, [R] int64, for logits [R, V].

    uniform [R] float64 in [0, 1) is the chance that decides: the same numbers choose the same tokens. seen [R, V] bool:
    tokens that the row's text already holds, needed for the repetition penalty.
    """
    if seen is not None:
        logits = penalise_repetition(logits, seen, config.repetition_penalty)
    if config.temperature == 0:
        return logits.argmax(dim=-1)
    ids: Tensor | None = None
    if config.top_k is not None and config.top_k < logits.shape[-1]:
        logits, ids = top_k(logits, config.top_k)  # first: what follows then has k entries to look at, not V
    logits = logits.float() / config.temperature
    if config.top_p is not None:
        logits = keep_top_p(logits, config.top_p)
    if config.min_p is not None:
        logits = keep_min_p(logits, config.min_p)
    # The first token at which the summed probability passes the drawn share; one of probability 0 never does.
    summed = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)  # [R, V], or [R, k]
    share = (uniform * summed[:, -1]).unsqueeze(-1)  # [R, 1]
    place = torch.searchsorted(summed, share, right=True)  # [R, 1]
    return (place if ids is None else ids.gather(-1, place)).squeeze(-1)


class Chances:
    """Numbers from [0, 1) for each text, from a CPU generator of its own: drawn for `STEPS` steps at a time."""

    STEPS = 64

    def __init__(self, texts: int, seed: int) -> None:
        self.generators = [torch.Generator().manual_seed(seed + text) for text in range(texts)]
        self.drawn = torch.empty(texts, 0)
        self.step = 0

    def draw(self) -> Tensor:
        """The numbers of the next `STEPS` steps, [texts, STEPS] float64 on the CPU."""
        return torch.stack([torch.rand(self.STEPS, generator=g, dtype=torch.float64) for g in self.generators])

    def next(self, live: list[int]) -> Tensor:
        """One number for each of the `live` texts, [R] float64 on the CPU."""
        place = self.step % self.STEPS
        if place == 0:
            self.drawn = self.draw()
        self.step += 1
        column = self.drawn[:, place]
        return column if len(live) == len(column) else column[live]
