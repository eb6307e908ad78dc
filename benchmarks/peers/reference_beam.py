"""Slow reference implementation of the beam search documented in `generation.beam_search`.

It decodes one sentence at a time, with Python lists and full forward passes without a cache. It runs in float64, so
rounding in the reference is not the cause if a fast search gives a different result.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from model.encoder_decoder import EncoderDecoder


@torch.no_grad()
def reference_beam(
    model: EncoderDecoder,
    source: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int,
    beam_size: int,
    length_penalty: float = 1.0,
    banned_ids: Collection[int] = (),
) -> list[int]:
    """Return the best hypothesis, without bos and eos, for a single sentence source [1, S] int64."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, max_length + 1):
        target = torch.tensor([[bos_id, *written] for _, written in beams])  # [K, T]
        logits = model(source.expand(len(beams), -1), target)[:, -1]  # [K, V]
        logits[:, list(banned_ids)] = float("-inf")
        before = torch.tensor([[total] for total, _ in beams], dtype=torch.float64)  # [K, 1]
        totals = before + logits.double().log_softmax(dim=-1)  # [K, V]
        best, places = totals.flatten().topk(min(2 * beam_size, totals.numel()))
        candidates = [
            (total, [*beams[place // totals.shape[1]][1], place % totals.shape[1]])
            for total, place in zip(best.tolist(), places.tolist(), strict=True)
            if total > float("-inf")
        ]
        for total, written in candidates[:beam_size]:
            if written[-1] == eos_id:
                ended.append((total / length**length_penalty, written[:-1]))
        beams = [candidate for candidate in candidates if candidate[1][-1] != eos_id][:beam_size]
        if len(ended) >= beam_size or not beams:
            break
        if length == max_length:
            ended += [(total / length**length_penalty, written) for total, written in beams]
    return max(ended, key=lambda scored: scored[0])[1]
