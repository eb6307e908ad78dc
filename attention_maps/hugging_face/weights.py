"""Explicit attention weights of one layer of a transformers model, checked against the layer's own attention function.

Shapes: B batch, H heads, Q queries, K keys, D head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
"""Largest accepted deviation by dtype; see `deviation`."""
LOW_PRECISION = 0.05
"""The same for bfloat16 and float16, which round to 1 in 256 and 1 in 2,048."""


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scaling: float | None, **variants: Any
) -> Tensor:
    """Return the weights [B,H,Q,K] float32 of softmax(Q Kᵀ · scaling + mask).

    query: [B,H,Q,D]; key: [B,Hkv,K,D], each shared by H / Hkv heads; mask: True where a key is visible, or numbers to
    add, [B,1 or H,Q,K or more]; rows that see nothing, of padding, are 0. causal: without a mask, query i sees the keys
    0 to i. variants: `position_bias` to add (T5), `softcap` (Gemma 2), and `s_aux`, a learned logit per head that takes
    part in the softmax but has no value, so that rows sum to less than 1 (GPT-OSS).
    """
    groups = query.shape[1] // key.shape[1]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query.float() @ key.float().repeat_interleave(groups, dim=1).transpose(2, 3) * scale
    if (cap := variants.get("softcap")) is not None:
        scores = cap * torch.tanh(scores / cap)
    if (bias := variants.get("position_bias")) is not None:
        scores = scores + bias.float()
    if mask is not None:
        mask = mask[..., : scores.shape[-1]]
    elif causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, torch.finfo(torch.float32).min)  # not -inf: rows of padding see nothing
    elif mask is not None:
        scores = scores + mask.float()
    seeing = 1.0 if mask is None else visible(mask).any(dim=-1, keepdim=True).float()  # [B,1 or H,Q,1]
    if (sinks := variants.get("s_aux")) is not None:
        beside = sinks.float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return torch.cat([scores, beside], dim=-1).softmax(dim=-1)[..., :-1] * seeing
    return scores.softmax(dim=-1) * seeing


def visible(mask: Tensor) -> Tensor:
    """Return where keys are visible, as bool."""
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def is_causal(module: nn.Module, argument: bool | None) -> bool:
    """Whether a layer without a mask hides later keys, as transformers' own attention functions decide."""
    return getattr(module, "is_causal", True) if argument is None else argument


def deviation(weights: Tensor, value: Tensor, mask: Tensor | None, output: Tensor) -> tuple[Tensor, float]:
    """Return weights times values, [B,H,Q,D] float32, and its largest difference from the layer's output [B,Q,H,D], as
    a fraction of the largest output; queries that see no key, which are padding, do not count."""
    groups = weights.shape[1] // value.shape[1]
    mixed = weights @ value.float().repeat_interleave(groups, dim=1)
    difference = (mixed - output.transpose(1, 2).float()).abs()
    if mask is not None:
        difference = difference.where(visible(mask).any(dim=-1, keepdim=True), 0.0)
    return mixed, float(difference.max() / mixed.abs().max().clamp(min=1e-12))


def tolerated(output: Tensor) -> float:
    """Return the largest accepted deviation for outputs of this dtype."""
    return TOLERANCE.get(output.dtype, LOW_PRECISION)
