"""Do one step of a beam search, without model and cache: select the hypotheses that continue and those that end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one source."""

    tokens: list[int]
    """Target ids without bos and eos."""

    score: float
    """`log_probability` / length ** length_penalty: the ranking criterion; higher is better."""

    log_probability: float
    """Log-probability of the hypothesis in nats, summed over its tokens including eos."""


@dataclass(frozen=True)
class BeamStep:
    """The selection for N sentences of K hypotheses each; all tensors are [N, K] except `count`."""

    ended: Tensor
    """Log-probabilities of the hypotheses that end with eos, best first; -inf in unused slots."""

    ended_parent: Tensor
    """Index of the hypothesis that each ended hypothesis extends."""

    token: Tensor
    """Next token of each continuing hypothesis."""

    parent: Tensor
    """Index of the hypothesis that `token` extends."""

    cut: Tensor
    """Log-probabilities of the hypotheses that `token` brings to the maximal length, otherwise -inf."""

    scores: Tensor
    """Log-probabilities of the continuing hypotheses, -inf for the others."""

    count: Tensor
    """Number of hypotheses per sentence that have ended with eos, [N]."""


def beam_step(log_probabilities: Tensor, scores: Tensor, count: Tensor, last: Tensor, eos_id: int) -> BeamStep:
    """Select among the continuations of each hypothesis.

    log_probabilities [N, K, V] of the next token; scores [N, K] and count [N] as returned by the previous step; last
    [N] bool: whether this token reaches the maximal length.
    """
    beam_size = scores.shape[1]
    # 2 beam_size candidates: at most beam_size of them end, one per hypothesis, so beam_size can continue.
    best, parent, token = _top_continuations(log_probabilities, scores, 2 * beam_size)  # [N, M] each, sorted
    ends = token == eos_id  # [N, M]
    ended = best.masked_fill(~ends, float("-inf"))[:, :beam_size]
    count = count + ended.isfinite().sum(dim=1)
    continued, place = best.masked_fill(ends, float("-inf")).topk(beam_size)  # [N, K]
    enough = count >= beam_size
    return BeamStep(
        ended,
        parent[:, :beam_size],
        token.gather(1, place),
        parent.gather(1, place),
        cut=continued.masked_fill(~(last & ~enough).unsqueeze(1), float("-inf")),
        scores=continued.masked_fill((last | enough).unsqueeze(1), float("-inf")),
        count=count,
    )


def _top_continuations(log_probabilities: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probability, hypothesis and token, [N, M] each, of the `count` best continuations, best first.

    log_probabilities [N, K, V] of the next token; scores [N, K] of the hypotheses so far. The vocabulary is divided
    into groups, and only the groups with the largest maxima are searched: 5 x faster than top-k over all K V entries.
    """
    sentences, beams, vocabulary = log_probabilities.shape
    # Token v is in group v % groups; group maxima are four times as fast if 32 divides the number of groups.
    size = next((size for size in range(64, 1, -1) if vocabulary % (32 * size) == 0), 1)
    groups = vocabulary // size
    grouped = log_probabilities.view(sentences, beams, size, groups)
    maxima = (grouped.amax(dim=2) + scores.unsqueeze(-1)).flatten(1)  # [N, K groups]
    group = maxima.topk(min(count, maxima.shape[1])).indices  # [N, G]
    beam, group = group // groups, group % groups
    rows = torch.arange(sentences, device=scores.device).unsqueeze(1)
    members = grouped[rows, beam, :, group] + scores.gather(1, beam).unsqueeze(-1)  # [N, G, size]
    best, place = members.flatten(1).topk(min(count, members[0].numel()))  # [N, M]
    parent = beam.gather(1, place // size)
    token = place % size * groups + group.gather(1, place // size)
    return best, parent, token
