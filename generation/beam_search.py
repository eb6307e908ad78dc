"""Beam search: find a probable translation by keeping the best few hypotheses at each step."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from generation.beam_step import Hypothesis, beam_step
from generation.cuda.beam_search import GraphBeamSearch
from generation.ensemble import Ensemble
from generation.neighbours.datastore import Datastore
from model.encoder_decoder import EncoderDecoder


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
    static_shapes: bool | None = None,
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

    static_shapes: if true, search with `GraphBeamSearch`, whose steps have one shape; if false, the batch shrinks as
    sources finish. None enables it when `GraphBeamSearch.applies`.

    Raises ValueError for invalid numbers or a model that is not in evaluation mode.
    """
    limits = _limits(model, source, max_length, beam_size, n_best)
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=source.device)
    if static_shapes is None:
        applies = GraphBeamSearch.applies(source.device, max(limits), model.config.context)
        static_shapes = applies and not isinstance(model, Ensemble) and neighbours is None
    if static_shapes:
        search = GraphBeamSearch(
            model, source, source_mask, bos_id=bos_id, eos_id=eos_id, limits=limits, beam_size=beam_size, banned=banned
        )
        search.run()
        return [ranked(hypotheses, n_best) for hypotheses in search.hypotheses(length_penalty)]
    ended: list[list[Hypothesis]] = [[] for _ in limits]

    def set_aside(sentences: Tensor, tokens: Tensor, log_probabilities: Tensor) -> None:
        """Store E finished hypotheses: sentences [E], tokens [E, T] without bos and eos, log-probabilities [E]."""
        found = zip(sentences.tolist(), tokens.tolist(), log_probabilities.tolist(), strict=True)
        for sentence, text, log_probability in found:
            ended[sentence].append(Hypothesis(text, log_probability / length**length_penalty, log_probability))

    cache = model.new_beam_cache(max(limits), beam_size)
    model.read(source, source_mask, cache)
    limit = torch.tensor(limits, device=source.device)
    # A row is a sentence; N of them are in the batch. Hypotheses that cannot continue have score -inf.
    sentence = torch.arange(len(limits), device=source.device)  # [N]
    count = torch.zeros_like(sentence)  # [N] hypotheses that have ended
    scores = torch.full((len(limits), beam_size), float("-inf"), device=source.device)  # [N, K] log-probabilities
    scores[:, 0] = 0.0  # all hypotheses start equal, so only one of them counts
    written = torch.full((len(limits), beam_size, 1), bos_id, device=source.device)  # [N, K, T], bos included

    for length in range(1, max(limits) + 1):
        states = model.next_features(written[:, :, -1], cache)  # [N, K, C]
        logits = model.logits(states).float()  # [N, K, V]
        log_probabilities = logits.index_fill_(-1, banned, float("-inf")).log_softmax(dim=-1)
        if neighbours is not None:
            log_probabilities = neighbours.mix(log_probabilities, states)
        step = beam_step(log_probabilities, scores, count, limit == length, eos_id)
        scores, count = step.scores, step.count

        row, rank = step.ended.isfinite().nonzero(as_tuple=True)
        set_aside(sentence[row], written[row, step.ended_parent[row, rank], 1:], step.ended[row, rank])
        history = written.gather(1, step.parent.unsqueeze(-1).expand(-1, -1, length))  # [N, K, T]
        written = torch.cat((history, step.token.unsqueeze(-1)), dim=-1)  # [N, K, T + 1]
        row, beam = step.cut.isfinite().nonzero(as_tuple=True)
        set_aside(sentence[row], written[row, beam, 1:], step.cut[row, beam])
        cache.follow(step.parent)

        rows = rows_to_keep(scores)
        if len(rows) == 0:
            break
        if len(rows) < len(scores):
            cache.keep(rows)
            sentence, count, limit, scores, written = (x[rows] for x in (sentence, count, limit, scores, written))
            neighbours = None if neighbours is None else neighbours.select(rows)
    return [ranked(hypotheses, n_best) for hypotheses in ended]


def ranked(hypotheses: list[Hypothesis], n_best: int) -> list[Hypothesis]:
    """Return the `n_best` hypotheses with the highest scores, best first."""
    return sorted(hypotheses, key=lambda hypothesis: hypothesis.score, reverse=True)[:n_best]


def rows_to_keep(scores: Tensor) -> Tensor:
    """Return the rows of scores [N, K] to keep in the batch: all, or the active rows and a few more, if there are any.

    A CPU generates code for each new shape of a matrix product, which takes five times as long as the product. So the
    batch shrinks only if it can lose a quarter of its rows, and to a multiple of 8.
    """
    active = scores.isfinite().any(dim=1)  # [N]
    wanted = int(active.sum())
    size = -(-wanted // 8) * 8
    if size > 0.75 * len(scores):
        return torch.arange(len(scores), device=scores.device)
    return active.int().argsort(descending=True, stable=True)[:size]


def _limits(model: EncoderDecoder, source: Tensor, max_length: int | Tensor, beam_size: int, n_best: int) -> list[int]:
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
    found = [sentence for holds, sentence in rules if not holds]
    if found:
        raise ValueError("; ".join(found))
    return limits
