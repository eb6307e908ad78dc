"""Faster equivalent of `model.attention.attention`: three matrix products in the inputs' dtype that keep the weights.

Used on a CPU, if `explicit_is_faster` of `model.fast.attention` is true: the fused kernel is slow with dropout, and its
backward pass is slow in bfloat16. Gain: 35 % of a training step of the demo GPT with attention dropout; up to 6 x in
bfloat16 with AMX (`EXPLICIT_LENGTH`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.layers import dropout


def explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout_probability: float
) -> Tensor:
    """Compute attention under `visible` (from `visible_keys`). Query heads that share a key head become its queries."""
    batch, heads, queries, width = query.shape
    kv_heads, length = key.shape[1:3]
    groups = heads // kv_heads
    query = query.reshape(batch * kv_heads, groups * queries, width)
    key = key.reshape(batch * kv_heads, length, width).transpose(1, 2)
    value = value.reshape(batch * kv_heads, length, width)
    bias = None  # 0 if a query sees a key, else -inf
    if visible is not None:
        bias = torch.zeros_like(visible, dtype=query.dtype).masked_fill_(~visible, float("-inf"))
        if groups > 1 or bias.dim() == 4:  # otherwise [T, S], which the product broadcasts
            per_head = bias if bias.dim() == 2 else bias.unsqueeze(2)  # [T, S] or [B, 1, 1, T, S]
            bias = per_head.expand(batch, kv_heads, groups, queries, length).reshape(-1, groups * queries, length)
    if bias is None:
        scores = torch.bmm(query * width**-0.5, key)  # [B Hkv, G T, S]
    else:
        scores = torch.baddbmm(bias, query, key, alpha=width**-0.5)
    weights = scores.softmax(dim=-1)
    if dropout_probability > 0:
        weights = dropout(weights, dropout_probability)
    return torch.bmm(weights, value).view(batch, heads, queries, width)
