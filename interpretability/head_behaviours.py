"""Head behaviours of a GPT, measured on random words that are repeated once, without other clues.

For the second occurrence of a token, the mean attention to the token before it (previous-token head), to the first
occurrence (duplicate-token head) and to the token after the first occurrence, which comes next (induction head; Elhage
et al. 2021, Olsson et al. 2022). The copying score asks instead what a head writes: whether it raises the logits of
the tokens that it attends to.

The words are tokens of the vocabulary that are whole words: a model has never seen arbitrary parts of words in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.recording import Measures
from interpretability.residual_stream import without_scale
from model.blocks import DecoderBlock
from model.gpt import GPT
from model.recording import AttentionRecording, record_attention

ROWS, LENGTH = 2, 32
"""Number of sequences, and of random tokens in each, before they are repeated."""


def head_behaviours(model: GPT, start_id: int, drawn: Sequence[int]) -> Measures:
    """Return the scores of every head, `[behaviour]["decoder"][layer][head]`; empty if the context or the number of
    tokens is too small.

    `repeat_previous`, `duplicate` and `induction` are mean attention weights, 0 to 1. `copying` is a correlation, -1 to
    1: negative for heads that suppress the tokens they attend to. start_id: the token before the first; drawn: the
    tokens to draw from, without special tokens.
    """
    tokens = repeated_tokens(model, start_id, drawn)
    if tokens is None:
        return {}
    with undisturbed(model), record_attention(model) as seen:
        model.features(tokens)
    return behaviours_in(seen, model, tokens)


def behaviours_in(seen: AttentionRecording, model: GPT, tokens: Tensor) -> Measures:
    """Return the same from the recorded attention of a forward pass; tokens: what `repeated_tokens` returns."""
    scores = _attention_scores(seen, tokens.shape[1] // 2) | {"copying": _copying(model, seen, tokens)}
    return {
        name: {"decoder": [[round(score, 5) for score in heads.tolist()] for heads in layers]}
        for name, layers in scores.items()
    }


def repeated_tokens(model: GPT, start_id: int, drawn: Sequence[int]) -> Tensor | None:
    """Return [ROWS, 1 + 2 N] int64: the start token, N different random tokens and the same again, always the same for
    the same `drawn`; None if this or the context leaves N below 4."""
    options = torch.tensor(drawn)
    count = min(LENGTH, len(options), (model.config.context - 1) // 2)
    if count < 4:
        return None
    draws = torch.Generator().manual_seed(0)
    half = torch.stack([options[torch.randperm(len(options), generator=draws)[:count]] for _ in range(ROWS)])  # [B, N]
    start = torch.full((ROWS, 1), start_id)
    return torch.cat([start, half, half], dim=1).to(model.output_weight.device)


def _attention_scores(seen: AttentionRecording, count: int) -> dict[str, list[Tensor]]:
    """Return, by behaviour and layer, the scores [H]. Positions are 1 to N and N+1 to 2N; the last one has no token
    after its first occurrence that is not in the second half."""
    rows = torch.arange(count + 1, 2 * count)
    offsets = {"repeat_previous": -1, "duplicate": -count, "induction": 1 - count}
    layers = [seen.weights[key] for key in sorted(seen.weights)]  # [B, H, T, T]
    return {
        name: [weights[:, :, rows, rows + offset].mean(dim=(0, 2)) for weights in layers]
        for name, offset in offsets.items()
    }


def _copying(model: GPT, seen: AttentionRecording, tokens: Tensor) -> list[Tensor]:
    """Return the copying scores [H] by layer.

    A token's value raises or lowers the logits of all tokens of its sequence: the score of a key is the correlation of
    these changes with 1 for its own token and 0 for the others. The mean over keys is weighted by the attention that
    they get from the second half.
    """
    count = tokens.shape[1] // 2
    kinds = tokens[:, 1 : count + 1]  # [B, N]
    is_own_token = (tokens[:, 1:, None] == kinds[:, None]).float()  # [B, 2N, N]
    rows = model.output_weight.float()[kinds]  # [B, N, C]
    scores = []
    for block, key in zip(model.blocks, sorted(seen.weights), strict=True):
        output = cast(DecoderBlock, block).attention.output.weight.float().unflatten(1, (-1, model.config.head_width))
        added = torch.einsum("bhkd,chd->bhkc", seen.values[key][:, :, 1:], output)
        logits = torch.einsum("bhkc,bnc->bhkn", without_scale(model, added, key), rows)  # [B, H, 2N, N]
        copied = correlation(logits, is_own_token[:, None])  # [B, H, 2N]
        received = seen.weights[key][:, :, count + 1 :, 1:].sum(dim=2)  # [B, H, 2N]
        scores.append((copied * received).sum(dim=(0, 2)) / received.sum(dim=(0, 2)).clamp(min=1e-12))
    return scores


def correlation(x: Tensor, y: Tensor) -> Tensor:
    """Return Pearson's correlation over the last dimension; 0 where one of them is constant."""
    x, y = x - x.mean(dim=-1, keepdim=True), y - y.mean(dim=-1, keepdim=True)
    return (x * y).sum(dim=-1) / (x.norm(dim=-1) * y.norm(dim=-1)).clamp(min=1e-12)
