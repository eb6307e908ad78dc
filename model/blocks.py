"""Transformer blocks: x + attention(norm(x)), then x + mlp(norm(x)).

Blocks that join their branches to x in another way are in `model.block_variants`.
"""

from __future__ import annotations

from torch import Tensor, nn

from model.attention import CausalSelfAttention, CrossAttention, SelfAttention
from model.cache import KVCache
from model.config import ModelConfig
from model.layers import Dropout, FeedForward, make_norm


class Block(nn.Module):
    """The parts of every block: self-attention and MLP, a norm before each, and one dropout for what they return."""

    def __init__(self, config: ModelConfig, attention: SelfAttention) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)  # without parameters, so one serves all branches
        self.attention_norm = make_norm(config)
        self.attention = attention
        self.feed_forward_norm = make_norm(config)
        self.feed_forward = FeedForward(config)


class DecoderBlock(Block):
    """Causal self-attention, followed by the MLP."""

    attention: CausalSelfAttention

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, CausalSelfAttention(config, kind="decoder", layer=layer))

    def forward(
        self,
        x: Tensor,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
        document_mask: Tensor | None = None,
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; cache and document_mask as in `CausalSelfAttention`."""
        # Attention is the only place where tokens exchange information; the MLP treats each token by itself.
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, cache, document_mask))
        # Neither sum is normalised: gradients flow back along x unchanged, through any number of blocks.
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class EncoderBlock(Block):
    """Self-attention over the whole source, followed by the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, SelfAttention(config, kind="encoder", layer=layer))

    def forward(self, x: Tensor, rotation: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Map x [B, S, C] to [B, S, C]; mask [B, S] bool, True = real token."""
        # No causal mask: the whole source is known before the first target token is predicted.
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class CrossDecoderBlock(DecoderBlock):
    """Causal self-attention, cross-attention to the source, then the MLP."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, layer)
        self.cross_norm = make_norm(config)
        self.cross_attention = CrossAttention(config, kind="cross", layer=layer)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        source: tuple[Tensor, Tensor],
        source_mask: Tensor | None = None,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; source: its keys and values, from `CrossAttention.keys_values`; source_mask
        [B, S] bool, True = real token."""
        x = x + self.dropout(self.attention(self.attention_norm(x), rotation, cache))
        # After self-attention, so that the query for the source knows what has been translated so far.
        # The source stays the same for all target tokens, so its keys and values have been computed once.
        x = x + self.dropout(self.cross_attention(self.cross_norm(x), *source, source_mask))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


def blocks_of(model: nn.Module) -> list[Block]:
    """Return the blocks of a model in the order of its forward pass, those of an encoder first."""
    return [module for module in model.modules() if isinstance(module, Block)]
