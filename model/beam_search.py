"""Beam search: the likeliest translation, as far as keeping a few hypotheses at a time can find it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from model.encoder_decoder import EncoderDecoder


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one source."""

    tokens: list[int]
    """Target ids without bos and eos."""

    score: float
    """`log_probability` / length ** length_penalty: what hypotheses are ranked by, higher is better."""

    log_probability: float
    """Sum over the tokens, eos included, of the log-probability in nats."""


@torch.no_grad()
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
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each source, best first (fewer where fewer exist).

    source [B, S] int64; source_mask [B, S] bool, True = real token, or None. max_length: most target tokens, for all
    sources or for each [B]; what has not ended by then is cut off and competes as it is. banned_ids are never written;
    the other tokens share their probability.

    Score: log-probability / length ** length_penalty, where length counts eos; 0 ranks by probability and so prefers
    short translations, 1 by the mean per token. (Wu et al. 2016 divide by ((5 + length) / 6) ** alpha instead.)

    In each step the `beam_size` likeliest unfinished hypotheses go on, and those among the `beam_size` likeliest of all
    that end are set aside; a source is done when `beam_size` have ended, and leaves the batch. With beam_size=1 this is
    greedy decoding. The translation of a source does not depend on the others.

    Raises ValueError for impossible numbers or a model that is not in evaluation mode.
    """
    limits = _limits(model, source, max_length, beam_size, n_best)
    device = source.device
    banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=device)
    ended: list[list[Hypothesis]] = [[] for _ in limits]

    def end(sentence: int, tokens: list[int], length: int, log_probability: float) -> None:
        score = log_probability / length**length_penalty
        ended[sentence].append(Hypothesis(tokens, score, log_probability))

    cache = model.new_cache(max(limits))
    model.read(source, source_mask, cache)
    live = list(range(len(limits)))  # sentence of each row of what follows, N of them
    scores = torch.zeros(len(live), 1, device=device)  # [N, K] log-probabilities; K is 1 now and beam_size from then on
    written = torch.full((len(live), 1, 1), bos_id, device=device)  # [N, K, T], bos included

    for length in range(1, max(limits) + 1):
        logits = model.next_logits(written[:, :, -1].reshape(-1, 1), cache).float()  # [N K, V]
        logits = logits.index_fill(-1, banned, float("-inf"))
        beams = scores.shape[1]

        # 2 beam_size candidates: at most beam_size of them end, one per hypothesis, so beam_size can go on.
        best, token = logits.topk(min(2 * beam_size, logits.shape[-1]))  # [N K, M]
        best = best - logits.logsumexp(dim=-1, keepdim=True) + scores.view(-1, 1)
        choices = best.shape[1]
        best, place = best.view(len(live), -1).topk(min(2 * beam_size, beams * choices))  # [N, M], sorted
        token = token.view(len(live), -1).gather(1, place)  # [N, M]
        parent = place // choices  # [N, M]
        ends = token == eos_id  # [N, M]

        for row, rank in (ends & best.isfinite())[:, :beam_size].nonzero().tolist():
            tokens = written[row, parent[row, rank], 1:].tolist()
            end(live[row], tokens, length, best[row, rank].item())

        scores, place = best.masked_fill(ends, float("-inf")).topk(min(beam_size, best.shape[1]))  # [N, K]
        token, parent = token.gather(1, place), parent.gather(1, place)  # [N, K]
        history = written.gather(1, parent.unsqueeze(-1).expand(-1, -1, length))  # [N, K, T]
        written = torch.cat((history, token.unsqueeze(-1)), dim=-1)  # [N, K, T + 1]

        alive = scores.isfinite().any(dim=1).tolist()
        going_on: list[int] = []
        for row, sentence in enumerate(live):
            if len(ended[sentence]) >= beam_size:
                continue
            if length == limits[sentence]:
                for beam in scores[row].isfinite().nonzero().flatten().tolist():
                    end(sentence, written[row, beam, 1:].tolist(), length, scores[row, beam].item())
            elif alive[row]:
                going_on.append(row)
        if not going_on:
            break

        rows = torch.tensor(going_on, device=device)
        cache.reorder((rows.unsqueeze(1) * beams + parent[rows]).flatten())
        if len(going_on) < len(live):
            cache.reorder_sources(rows)
            live = [live[row] for row in going_on]
            scores, written = scores[rows], written[rows]

    return [sorted(hypotheses, key=lambda h: h.score, reverse=True)[:n_best] for hypotheses in ended]


def _limits(model: EncoderDecoder, source: Tensor, max_length: int | Tensor, beam_size: int, n_best: int) -> list[int]:
    """The most target tokens of each source; raises ValueError for what cannot be searched."""
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
