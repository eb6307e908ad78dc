"""Post-norm blocks, norm(x + f(x)) (Vaswani et al. 2017), for models that come from elsewhere: Marian."""

from __future__ import annotations

from typing import TypeVar, cast

from torch import Tensor

from model.blocks import Block, CrossDecoderBlock, DecoderBlock, EncoderBlock
from model.cache import KVCache
from model.config import ModelConfig


class PostNormEncoderBlock(EncoderBlock):
    """norm(x + attention(x)), norm(x + mlp(x))."""

    def forward(self, x: Tensor, rotation: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """As in `EncoderBlock`."""
        x = self.attention_norm(x + self.dropout(self.attention(x, rotation, mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class PostNormDecoderBlock(DecoderBlock):
    """norm(x + attention(x)), norm(x + mlp(x))."""

    def forward(
        self,
        x: Tensor,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
        document_mask: Tensor | None = None,
    ) -> Tensor:
        """As in `DecoderBlock`."""
        x = self.attention_norm(x + self.dropout(self.attention(x, rotation, cache, document_mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class PostNormCrossDecoderBlock(CrossDecoderBlock):
    """norm(x + attention(x)), norm(x + cross_attention(x)), norm(x + mlp(x))."""

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        source: tuple[Tensor, Tensor],
        source_mask: Tensor | None = None,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """As in `CrossDecoderBlock`."""
        x = self.attention_norm(x + self.dropout(self.attention(x, rotation, cache)))
        x = self.cross_norm(x + self.dropout(self.cross_attention(x, *source, source_mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


VARIANTS: dict[str, dict[type[Block], type[Block]]] = {
    "pre_norm": {},
    "post_norm": {
        EncoderBlock: PostNormEncoderBlock,
        DecoderBlock: PostNormDecoderBlock,
        CrossDecoderBlock: PostNormCrossDecoderBlock,
    },
}
"""The class that takes the place of a class of `model.blocks`, for each value of `config.block`."""

AnyBlock = TypeVar("AnyBlock", bound=Block)


def block_class(block: type[AnyBlock], config: ModelConfig) -> type[AnyBlock]:
    """Return a class of `model.blocks`, or the variant of it that `config.block` selects."""
    return cast(type[AnyBlock], VARIANTS[config.block].get(block, block))
