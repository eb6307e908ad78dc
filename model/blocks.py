"""Pre-norm transformer blocks: x + attention(norm(x)), then x + MLP(norm(x)) (Xiong et al. 2020, figure 1b)."""

from __future__ import annotations

from torch import Tensor, nn

from model.attention import CausalSelfAttention, CrossAttention, SelfAttention
from model.cache import KVCache
from model.config import ModelConfig
from model.layers import Dropout, FeedForward, make_norm


class EncoderBlock(nn.Module):
    """Self-attention over the whole source, followed by the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = make_norm(config)
        self.attention = SelfAttention(config, "encoder", layer)
        self.feed_forward_norm = make_norm(config)
        self.feed_forward = FeedForward(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, rotation: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Map x [B, S, C] to [B, S, C]; mask [B, S] bool, True = real token."""
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def residual_outputs(self) -> list[nn.Linear]:
        """Return the layers whose output is added to the residual stream."""
        return [self.attention.output, self.feed_forward.project]


class DecoderBlock(nn.Module):
    """Causal self-attention, followed by the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = make_norm(config)
        self.attention = CausalSelfAttention(config, "decoder", layer)
        self.feed_forward_norm = make_norm(config)
        self.feed_forward = FeedForward(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, rotation: Tensor | None = None, cache: KVCache | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; cache and documents as in `CausalSelfAttention`."""
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, cache, documents))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def residual_outputs(self) -> list[nn.Linear]:
        """Return the layers whose output is added to the residual stream."""
        return [self.attention.output, self.feed_forward.project]


class CrossDecoderBlock(DecoderBlock):
    """Causal self-attention, cross-attention to the source, then the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.cross_norm = make_norm(config)
        self.cross_attention = CrossAttention(config, "cross", layer)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        source_mask: Tensor | None = None,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; memory from `CrossAttention.keys_values`; source_mask [B, S] bool."""
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, cache))
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), *memory, source_mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def residual_outputs(self) -> list[nn.Linear]:
        """Return the layers whose output is added to the residual stream."""
        return [self.attention.output, self.cross_attention.output, self.feed_forward.project]
