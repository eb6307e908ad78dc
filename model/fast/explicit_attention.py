"""Equals `model.attention.attention`, as three matrix products in the inputs' dtype that keep the weights.

Used: on a CPU, if `explicit_is_faster` of `model.fast.attention` is true: the fused kernel has a slow backward pass in
bfloat16, and is slow with dropout and for the few queries of a decoding step. Gain: 27 % of a step of the demo GPT with
attention dropout; up to 6 x in bfloat16 with AMX (`EXPLICIT_LENGTH`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.layers import dropout


def explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout_probability: float
) -> Tensor:
    """Compute attention under `visible` (from `visible_keys`). Query heads that share a key head become its queries."""
    batch, heads, queries, width = query.shape
    kv_heads, keys = key.shape[1:3]
    groups = heads // kv_heads
    query = query.reshape(batch * kv_heads, groups * queries, width)
    key = key.reshape(batch * kv_heads, keys, width)
    value = value.reshape(batch * kv_heads, keys, width)
    bias = None  # 0 if a query sees a key, else -inf
    if visible is not None:
        bias = torch.zeros_like(visible, dtype=query.dtype).masked_fill_(~visible, float("-inf"))
        if groups > 1 or bias.dim() == 4:  # otherwise [T, S], which the product broadcasts
            per_head = bias if bias.dim() == 2 else bias.unsqueeze(2)  # [T, S] or [B, 1, 1, T, S]
            bias = per_head.expand(batch, kv_heads, groups, queries, keys).reshape(-1, groups * queries, keys)
    weights = _Scores.apply(query, key, bias, width**-0.5).softmax(dim=-1)  # [B Hkv, G T, S]
    if dropout_probability > 0:
        weights = dropout(weights, dropout_probability)
    return torch.bmm(weights, value).view(batch, heads, queries, width)


class _Scores(torch.autograd.Function):
    """scale · Q Kᵀ + bias for query [N, T, D] and key [N, S, D]: [N, T, S]. Autograd's own backward pass leaves the
    gradient of Kᵀ to be transposed."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, bias: Tensor | None, scale: float) -> Tensor:
        ctx.save_for_backward(query, key)
        ctx.scale = scale
        if bias is None:
            return torch.bmm(query * scale, key.transpose(1, 2))
        return torch.baddbmm(bias, query, key.transpose(1, 2), alpha=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query, key = ctx.saved_tensors
        return torch.bmm(grad, key) * ctx.scale, torch.bmm(grad.transpose(1, 2), query) * ctx.scale, None, None
