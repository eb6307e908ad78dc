"""Transformer blocks: attention and MLP, each the input of a residual connection."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from model.attention import CausalSelfAttention, CrossAttention, SelfAttention
from model.cache import KVCache
from model.config import ModelConfig
from model.layers import Dropout, FeedForward, make_norm

Branch = tuple[nn.Module, Callable[[Tensor], Tensor]]
"""A norm, and the function that the block adds to the residual stream: attention or MLP."""


class Block(nn.Module):
    """The parts shared by all three blocks: how the branches are joined to the residual stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.arrangement = config.block
        self.dropout = Dropout(config.dropout)

    def join(self, x: Tensor, *branches: Branch) -> Tensor:
        """Add the branches to the residual stream x [B, T, C] as `config.block` says."""
        if self.arrangement == "parallel":
            return sum((self.dropout(branch(norm(x))) for norm, branch in branches), start=x)
        for norm, branch in branches:
            if self.arrangement == "pre_norm":
                x = x + self.dropout(branch(norm(x)))
            else:
                x = norm(x + self.dropout(branch(x)))
        return x


class EncoderBlock(Block):
    """Self-attention over the whole source, followed by the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config)
        self.attention_norm = make_norm(config)
        self.attention = SelfAttention(config, "encoder", layer)
        self.feed_forward_norm = make_norm(config)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, rotation: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Map x [B, S, C] to [B, S, C]; mask [B, S] bool, True = real token."""
        return self.join(
            x,
            (self.attention_norm, lambda y: self.attention(y, rotation, mask)),
            (self.feed_forward_norm, self.feed_forward),
        )

    def residual_outputs(self) -> list[nn.Linear]:
        """Return the layers whose output is added to the residual stream."""
        return [self.attention.output, self.feed_forward.project]


class DecoderBlock(Block):
    """Causal self-attention, followed by the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config)
        self.attention_norm = make_norm(config)
        self.attention = CausalSelfAttention(config, "decoder", layer)
        self.feed_forward_norm = make_norm(config)
        self.feed_forward = FeedForward(config)

    def forward(
        self, x: Tensor, rotation: Tensor | None = None, cache: KVCache | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; cache and documents as in `CausalSelfAttention`."""
        return self.join(
            x,
            (self.attention_norm, lambda y: self.attention(y, rotation, cache, documents)),
            (self.feed_forward_norm, self.feed_forward),
        )

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
        return self.join(
            x,
            (self.attention_norm, lambda y: self.attention(y, rotation, cache)),
            (self.cross_norm, lambda y: self.cross_attention(y, *memory, source_mask)),
            (self.feed_forward_norm, self.feed_forward),
        )

    def residual_outputs(self) -> list[nn.Linear]:
        """Return the layers whose output is added to the residual stream."""
        return [self.attention.output, self.cross_attention.output, self.feed_forward.project]


def blocks_of(model: nn.Module) -> list[Block]:
    """Return the blocks of a model in the order of its forward pass, those of an encoder first."""
    return [module for module in model.modules() if isinstance(module, Block)]
