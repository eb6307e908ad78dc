"""Define attention, softmax(Q Kᵀ / √D) V, and the three thin modules that use it.

`reference_attention` is the definition; `attention` computes the same function with the fastest kernel. Every module
calls `attention` through its attribute `attend`: the hook for those who want to see queries, keys or weights.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from model.cache import KVCache
from model.config import ModelConfig
from model.embedding import rotate
from model.fast_kernels import accelerated_by, fast_attention
from model.layers import make_rms_norm
from model.masks import Mask, visible_keys


def reference_attention(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Mask = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return softmax(Q Kᵀ / √D) V and the weights softmax(Q Kᵀ / √D) (Vaswani et al. 2017, eq. 1), in float32.

    query [B, H, T, D], key and value [B, Hkv, S, D] with Hkv dividing H (query head h uses key head h // (H / Hkv)).
    causal: query t attends to keys up to its own position; if T < S, queries are the last T positions (KV cache).
    key_mask bool, True = may be attended to: [B, S] for real tokens, None if all are; or [B, T, S] per query, which
    replaces the causal rule and so must contain it (beam hypotheses, packed documents). Every query needs a key.
    dropout: probability of dropping a weight, nonzero only in training. Returns the output [B, H, T, D] and the
    weights [B, H, T, S].
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
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Mask = None, dropout: float = 0.0
) -> Tensor:
    """Return the output of `reference_attention`, [B, H, T, D] in the query's dtype; the arguments are the same.

    Calls go to `fast_attention`, which always answers; the body is what it is tested against.
    """
    output, _ = reference_attention(query, key, value, causal=causal, key_mask=key_mask, dropout=dropout)
    return output.to(query.dtype)


class Attention(nn.Module):
    """The parts shared by all three modules: heads, the output projection and the hook."""

    attend = staticmethod(attention)
    """The hook: `model.recording` and guided alignment replace it on individual modules."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        """kind: decoder, encoder or cross; with the layer it names the module in recordings. layer: also its place in a
        cache."""
        super().__init__()
        self.kind = kind
        self.layer = layer
        self.heads = config.heads
        self.kv_heads = config.key_value_heads
        self.head_width = config.head_width
        self.attention_dropout = config.attention_dropout
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Mask = None) -> Tensor:
        """Attend with all heads [B, H, T, D] and project the result to [B, T, C]."""
        probability = self.attention_dropout if self.training else 0.0
        mixed = self.attend(query, key, value, causal=causal, key_mask=key_mask, dropout=probability)  # [B, H, T, D]
        return self.output(mixed.transpose(1, 2).flatten(2))


class SelfAttention(Attention):
    """Self-attention without a causal mask: every token attends to every token of the sequence (encoder)."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__(config, kind, layer)
        rows = (config.heads + 2 * self.kv_heads) * self.head_width
        self.query_key_value = nn.Linear(config.width, rows, bias=config.bias)
        # One gain for both queries and keys: they are then normalised in one pass.
        self.query_key_norm = make_rms_norm(config, self.head_width) if config.qk_norm else None

    def forward(self, x: Tensor, rotation: Tensor | None = None, key_mask: Tensor | None = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; rotation from `RotaryPositions`; key_mask [B, T] bool, True = real token."""
        return self._mix(*self.queries_keys_values(x, rotation), key_mask=key_mask)

    def queries_keys_values(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries [B, H, T, D], keys and values [B, Hkv, T, D]; queries and keys normalised and rotated."""
        fused = self.query_key_value(x).unflatten(-1, (-1, self.head_width))  # [B, T, H + 2 Hkv, D]
        query_key, value = fused.split((self.heads + self.kv_heads, self.kv_heads), dim=2)
        if self.query_key_norm is not None:
            query_key = self.query_key_norm(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query_key = query_key.to(value.dtype)  # autocast on a GPU: norms in float32, projections in bfloat16
        query, key = query_key.split((self.heads, self.kv_heads), dim=2)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


class CausalSelfAttention(SelfAttention):
    """Causal self-attention: every token attends to itself and to earlier tokens (decoder)."""

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
        document_mask: Tensor | None = None,
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]. With a cache, x holds the next T tokens of a single document.

        document_mask: from `model.masks.document_mask` for rows of several documents; None lets a token attend to all
        before it.
        """
        query, key, value = self.queries_keys_values(x, rotation)
        key_mask = document_mask
        if cache is not None:
            key, value, key_mask = cache.append(self.layer, key, value)
        return self._mix(query, key, value, causal=True, key_mask=key_mask)


class CrossAttention(Attention):
    """Target tokens attend to all source tokens. No rotation: source and target have separate position indices."""

    def __init__(self, config: ModelConfig, kind: str, layer: int) -> None:
        super().__init__(config, kind, layer)
        self.query = nn.Linear(config.width, config.width, bias=config.bias)
        self.key_value = nn.Linear(config.width, 2 * self.kv_heads * self.head_width, bias=config.bias)
        self.query_key_norm = make_rms_norm(config, self.head_width) if config.cross_qk_norm else None

    def keys_values(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values [B, Hkv, S, D] of the encoder output [B, S, C]; computed once per source."""
        fused = self.key_value(encoded).unflatten(-1, (-1, self.head_width))  # [B, S, 2 Hkv, D]
        key, value = fused.split(self.kv_heads, dim=2)
        if self.query_key_norm is not None:
            key = self.query_key_norm(key).to(value.dtype)
        return key.transpose(1, 2), value.transpose(1, 2)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; key, value from `keys_values`; source_mask [B, S] bool, True = real token."""
        query = self.query(x).unflatten(-1, (-1, self.head_width))  # [B, T, H, D]
        if self.query_key_norm is not None:
            query = self.query_key_norm(query).to(value.dtype)
        return self._mix(query.transpose(1, 2), key, value, key_mask=source_mask)
