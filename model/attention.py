"""Attention, softmax(Q Kᵀ / √D) V, and the three thin modules that use it.

`reference_attention` is the definition, `attention` the same function by the fastest kernel. Every module calls it
through its attribute `attend`, the hook that `model.recording` replaces.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from model.cache import KVCache
from model.config import ModelConfig
from model.fast import accelerated_by
from model.fast.attention import fast_attention
from model.layers import RMSNorm
from model.masks import visible_keys
from model.positions import rotate


def reference_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(Q Kᵀ / √D) V and its weights, softmax(Q Kᵀ / √D) (Vaswani et al. 2017, equation 1), in float32.

    query [B, H, T, D], key and value [B, Hkv, S, D] with Hkv dividing H (query head h reads key head h // (H / Hkv)).
    causal: query t sees keys up to its own position; with T < S the queries are the last T positions (cached decoding).
    key_mask [B, S] bool: True where a key is a real token; None when all are. Every query must see at least one key.
    [B, T, S]: the keys that each query sees, whose order then means nothing (the hypotheses of a beam search, the
    documents of a window). dropout: probability of dropping a weight; not 0 in training only. Returns the output
    [B, H, T, D] and the weights [B, H, T, S].
    """
    groups = query.shape[1] // key.shape[1]
    key = key.float().repeat_interleave(groups, dim=1)  # [B, H, S, D]
    value = value.float().repeat_interleave(groups, dim=1)  # [B, H, S, D]
    scores = query.float() @ key.transpose(-1, -2) / query.shape[-1] ** 0.5  # [B, H, T, S]
    visible = visible_keys(query, key, causal, key_mask)
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = F.dropout(scores.softmax(dim=-1), dropout)
    return weights @ value, weights


@accelerated_by(fast_attention)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The output of `reference_attention`, [B, H, T, D] in the query's dtype; arguments likewise."""
    output, _ = reference_attention(query, key, value, causal=causal, key_mask=key_mask, dropout=dropout)
    return output.to(query.dtype)


class Attention(nn.Module):
    """What the three kinds share: heads, their output projection, and the hook of a recording."""

    attend = staticmethod(attention)
    """The hook: `record_attention` replaces it on single modules for a while."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__()
        self.kind = kind
        self.layer = layer
        self.heads = config.heads
        self.kv_heads = config.key_value_heads
        self.head_width = config.head_width
        self.attention_dropout = config.attention_dropout
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def _mix(
        self, query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Tensor | None = None
    ) -> Tensor:
        """Attention of all heads [B, H, T, D], projected: [B, T, C]."""
        probability = self.attention_dropout if self.training else 0.0
        mixed = self.attend(query, key, value, causal=causal, key_mask=key_mask, dropout=probability)  # [B, H, T, D]
        return self.output(mixed.transpose(1, 2).flatten(2))


class SelfAttention(Attention):
    """Every token of a sequence attends to all of them (encoder)."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__(config, kind, layer)
        self.query_key_value = nn.Linear(
            config.width, (config.heads + 2 * self.kv_heads) * self.head_width, bias=config.bias
        )
        # One gain for queries and keys alike: their product needs one, and both are then normalised in one pass.
        self.query_key_norm = RMSNorm(self.head_width) if config.qk_norm else None

    def forward(self, x: Tensor, rotation: Tensor | None = None, key_mask: Tensor | None = None) -> Tensor:
        """x [B, T, C] to [B, T, C]; rotation from `RotaryPositions`; key_mask [B, T] bool, True = real token."""
        return self._mix(*self._heads(x, rotation), key_mask=key_mask)

    def _heads(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, H, T, D], keys and values [B, Hkv, T, D], normalised and rotated."""
        fused = self.query_key_value(x).unflatten(-1, (-1, self.head_width))  # [B, T, H + 2 Hkv, D]
        if self.query_key_norm is None and rotation is None:
            query, key, value = fused.split((self.heads, self.kv_heads, self.kv_heads), dim=2)
        else:
            query_key, value = fused.split((self.heads + self.kv_heads, self.kv_heads), dim=2)
            if self.query_key_norm is not None:
                query_key = self.query_key_norm(query_key)
            if rotation is not None:
                query_key = rotate(query_key, rotation)
            query, key = query_key.to(value.dtype).split((self.heads, self.kv_heads), dim=2)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


class CausalSelfAttention(SelfAttention):
    """Every token attends to itself and to those before it (decoder)."""

    def forward(  # type: ignore[override]
        self, x: Tensor, rotation: Tensor | None = None, cache: KVCache | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """x [B, T, C] to [B, T, C]. With a cache, x are the T tokens that follow those in it, all of one document.

        documents: from `document_mask`, where rows hold several; None lets a token see all before it.
        """
        query, key, value = self._heads(x, rotation)
        key_mask = documents
        if cache is not None:
            key, value, key_mask = cache.append(self.layer, key, value)
        return self._mix(query, key, value, causal=True, key_mask=key_mask)


class CrossAttention(Attention):
    """Tokens of the target attend to all tokens of the source. No rotation: the two have positions of their own."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__(config, kind, layer)
        self.query = nn.Linear(config.width, config.width, bias=config.bias)
        self.key_value = nn.Linear(config.width, 2 * self.kv_heads * self.head_width, bias=config.bias)
        self.query_key_norm = RMSNorm(self.head_width) if config.qk_norm else None

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, Hkv, S, D] of the encoder's output [B, S, C]; computed once per source."""
        fused = self.key_value(memory).unflatten(-1, (-1, self.head_width))  # [B, S, 2 Hkv, D]
        key, value = fused.split(self.kv_heads, dim=2)
        if self.query_key_norm is not None:
            key = self.query_key_norm(key).to(value.dtype)
        return key.transpose(1, 2), value.transpose(1, 2)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """x [B, T, C] to [B, T, C]; key and value from `keys_values`; source_mask [B, S] bool, True = real token."""
        query = self.query(x).unflatten(-1, (-1, self.head_width))  # [B, T, H, D]
        if self.query_key_norm is not None:
            query = self.query_key_norm(query).to(value.dtype)
        return self._mix(query.transpose(1, 2), key, value, key_mask=source_mask)
