"""Beam search: find a probable translation by keeping the best few hypotheses at each step.

Read `beam_search` first. It runs the model and keeps the books; `beam_step` chooses which hypotheses go on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from generation.neighbours.datastore import Datastore
from model.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one source."""

    tokens: list[int]
    """Target ids without bos and eos."""

    score: float
    """`log_probability` / length ** length_penalty: the ranking criterion; higher is better."""

    log_probability: float
    """Log-probability of the hypothesis in nats, summed over its tokens including eos."""


@torch.inference_mode()
def beam_search(
    model: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None = None,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int | Tensor,
    beam_size: int = 4,
    length_penalty: float = 1.0,
    n_best: int = 1,
    banned_ids: Collection[int] = (),
    neighbours: Datastore | None = None,
) -> list[list[Hypothesis]]:
    """Return the `n_best` best hypotheses of each source, best first (fewer if fewer exist).

    source [B, S] int64; source_mask [B, S] bool, True = real token, or None. max_length: maximum number of target
    tokens, for all sources or per source [B]; a hypothesis of that length is truncated and ranked as it is. banned_ids
    are never generated; the remaining probabilities are renormalised.

    Score: log-probability / length ** length_penalty, where length counts eos; 0 ranks by probability and so prefers
    short translations, 1 by the mean per token. (Wu et al. 2016 divide by ((5 + length) / 6) ** alpha instead.)

    Each step keeps the `beam_size` most probable unfinished hypotheses. Finished hypotheses among the `beam_size` most
    probable of all are set aside. A source is finished, and leaves the batch, when `beam_size` hypotheses have ended.
    beam_size=1 is greedy decoding. The translation of a source does not depend on the other sources.

    neighbours: of the same sources; mixes the probabilities of their next tokens with those of the model.

    Raises ValueError for invalid numbers or a model that is not in evaluation mode.
    """
    limits = checked_limits(model, source, max_length, beam_size, n_best)
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=source.device)
    ended: list[list[Hypothesis]] = [[] for _ in limits]

    def set_aside(sentences: Tensor, tokens: Tensor, log_probabilities: Tensor) -> None:
        """Store E finished hypotheses: sentences [E], tokens [E, T] without bos and eos, log-probabilities [E]."""
        finished = zip(sentences.tolist(), tokens.tolist(), log_probabilities.tolist(), strict=True)
        for sentence, text, log_probability in finished:
            ended[sentence].append(Hypothesis(text, log_probability / length**length_penalty, log_probability))

    # The encoder runs once; every step attends to the keys and values that it leaves in the cache.
    cache = model.new_beam_cache(max(limits), beam_size)
    model.cache_source(source, source_mask, cache)
    limit = torch.tensor(limits, device=source.device)
    # A row is a sentence; N of them are in the batch. Hypotheses that cannot continue have score -inf.
    sentence = torch.arange(len(limits), device=source.device)  # [N]
    count = torch.zeros_like(sentence)  # [N] hypotheses that have ended
    scores = torch.full((len(limits), beam_size), float("-inf"), device=source.device)  # [N, K] log-probabilities
    scores[:, 0] = 0.0  # all hypotheses start equal, so only one of them counts
    written = torch.full((len(limits), beam_size, 1), bos_id, device=source.device)  # [N, K, T], bos included

    for length in range(1, max(limits) + 1):
        # Ban before the softmax: what may be generated then shares the whole probability.
        states = model.next_features(written[:, :, -1], cache)  # [N, K, C]
        logits = model.logits(states).float()  # [N, K, V]
        log_probabilities = logits.index_fill_(-1, banned, float("-inf")).log_softmax(dim=-1)
        if neighbours is not None:
            log_probabilities = neighbours.mix(log_probabilities, states)
        step = beam_step(log_probabilities, scores, count, limit == length, eos_id)
        scores, count = step.scores, step.count

        # A finished hypothesis no longer competes for a place in the beam, but its translation may win in the end.
        row, rank = step.ended.isfinite().nonzero(as_tuple=True)
        set_aside(sentence[row], written[row, step.ended_parent[row, rank], 1:], step.ended[row, rank])
        # The best continuations may all come from one hypothesis, so each takes over the tokens and the cache of its
        # parent.
        history = written.gather(1, step.parent.unsqueeze(-1).expand(-1, -1, length))  # [N, K, T]
        written = torch.cat((history, step.token.unsqueeze(-1)), dim=-1)  # [N, K, T + 1]
        row, beam = step.cut.isfinite().nonzero(as_tuple=True)
        set_aside(sentence[row], written[row, beam, 1:], step.cut[row, beam])
        cache.follow(step.parent)

        # Long sentences go on alone: without this, each step would compute the rows of those that are done.
        rows = rows_to_keep(scores)
        if len(rows) == 0:
            break
        if len(rows) < len(scores):
            cache.keep(rows)
            sentence, count, limit, scores, written = (x[rows] for x in (sentence, count, limit, scores, written))
            neighbours = None if neighbours is None else neighbours.select(rows)
    return [ranked(hypotheses, n_best) for hypotheses in ended]


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
    # Those that end are counted before the beam is refilled: a sentence with `beam_size` of them is finished.
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
    # A token among the best `count` is in one of the `count` groups with the largest maxima, so none is missed.
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


def ranked(hypotheses: list[Hypothesis], n_best: int) -> list[Hypothesis]:
    """Return the `n_best` hypotheses with the highest scores, best first."""
    return sorted(hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True)[:n_best]


def rows_to_keep(scores: Tensor) -> Tensor:
    """Return the rows of scores [N, K] to keep in the batch: all, or the active rows and a few more."""
    # A CPU generates code for each new shape of a matrix product, which takes five times as long as the product. So the
    # batch shrinks only if it can lose a quarter of its rows, and to a multiple of 8.
    active = scores.isfinite().any(dim=1)  # [N]
    wanted = int(active.sum())
    size = -(-wanted // 8) * 8
    if size > 0.75 * len(scores):
        return torch.arange(len(scores), device=scores.device)
    return active.int().argsort(descending=True, stable=True)[:size]


def checked_limits(
    model: EncoderDecoder, source: Tensor, max_length: int | Tensor, beam_size: int, n_best: int
) -> list[int]:
    """Return the maximum number of target tokens per source; raises ValueError for invalid arguments."""
    sentences = source.shape[0]
    limits = [max_length] * sentences if isinstance(max_length, int) else max_length.tolist()
    context = model.config.context
    rules = (
        (not model.training, "the model must be in evaluation mode: call model.eval()"),
        (beam_size >= 1, f"beam_size must be at least 1, not {beam_size}"),
        (1 <= n_best <= beam_size, f"n_best must be between 1 and beam_size ({beam_size}), not {n_best}"),
        (len(limits) == sentences, f"max_length has {len(limits)} entries for {sentences} sources"),
        (min(limits, default=1) >= 1, f"max_length must be at least 1, not {min(limits, default=1)}"),
        (
            model.config.position != "learned" or max(limits, default=1) <= context,
            f"max_length ({max(limits, default=1)}) is beyond model.context={context}, the last learned position",
        ),
    )
    problems = [sentence for holds, sentence in rules if not holds]
    if problems:
        raise ValueError("; ".join(problems))
    return limits
