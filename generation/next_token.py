"""Sample the next token: filters on logits, and the random numbers that select among the remaining tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from generation.config import SamplingConfig


def penalise_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make the tokens in seen [..., V] bool less likely (penalty above 1) in logits [..., V] (Keskar et al. 2019):
    positive logits are divided by the penalty, negative logits multiplied."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of logits [..., V] and their token ids, [..., k] each, ordered by id; torch breaks ties."""
    ids = logits.topk(min(k, logits.shape[-1]), sorted=False).indices.sort(dim=-1).values
    return logits.gather(-1, ids), ids


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Set logits [..., V] outside the nucleus to -inf. The nucleus is the smallest set of most likely tokens whose
    probabilities sum to at least p (Holtzman et al. 2020)."""
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # [..., V]: total probability of all more likely tokens
    p = max(p, torch.finfo(before.dtype).tiny)  # a smaller p is rounded to 0
    ordered = ordered.masked_fill(before >= p, float("-inf"))  # the most likely token has 0 before it and is kept
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def keep_min_p(logits: Tensor, fraction: float) -> Tensor:
    """Set logits [..., V] of tokens less likely than `fraction` of the maximum to -inf (Nguyen et al. 2024)."""
    largest = logits.amax(dim=-1, keepdim=True)  # [..., 1]
    return logits.masked_fill((logits - largest).exp() < fraction, float("-inf"))


def next_token(logits: Tensor, uniform: Tensor, config: SamplingConfig, seen: Tensor | None = None) -> Tensor:
    """Sample one token per row, [R] int64, from logits [R, V].

    uniform [R] float64 in [0, 1) selects by inverse transform sampling: the same numbers select the same tokens. seen
    [R, V] bool: tokens that are already in the row's text, needed for the repetition penalty.
    """
    if seen is not None:
        logits = penalise_repetition(logits, seen, config.repetition_penalty)
    if config.temperature == 0:
        return logits.argmax(dim=-1)
    ids: Tensor | None = None
    if config.top_k is not None and config.top_k < logits.shape[-1]:
        logits, ids = top_k(logits, config.top_k)  # first: the other filters then work on k entries, not V
    logits = logits.float() / config.temperature
    if config.top_p is not None:
        logits = keep_top_p(logits, config.top_p)
    if config.min_p is not None:
        logits = keep_min_p(logits, config.min_p)
    # The first token whose cumulative probability exceeds the drawn number; a token of probability 0 never does.
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)  # [R, V], or [R, k]
    share = (uniform * cumulative[:, -1]).unsqueeze(-1)  # [R, 1]
    place = torch.searchsorted(cumulative, share, right=True)  # [R, 1]
    return (place if ids is None else ids.gather(-1, place)).squeeze(-1)


class UniformDraws:
    """Uniform random numbers in [0, 1) from one CPU generator per text, drawn for `STEPS` steps at a time."""

    STEPS = 64

    def __init__(self, texts: int, seed: int) -> None:
        self.generators = [torch.Generator().manual_seed(seed + text) for text in range(texts)]
        self.drawn = torch.empty(texts, 0)
        self.step = 0

    def draw(self) -> Tensor:
        """Draw the numbers of the next `STEPS` steps, [texts, STEPS] float64 on the CPU."""
        return torch.stack([torch.rand(self.STEPS, generator=g, dtype=torch.float64) for g in self.generators])

    def next(self, rows: list[int]) -> Tensor:
        """Draw one number for each of the texts `rows`, [R] float64 on the CPU."""
        place = self.step % self.STEPS
        if place == 0:
            self.drawn = self.draw()
        self.step += 1
        column = self.drawn[:, place]
        return column if len(rows) == len(column) else column[rows]
