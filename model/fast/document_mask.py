"""Faster equivalent of `model.masks.document_mask`, and of attention under that mask: a block mask for FlexAttention.

Used in compiled code on a GPU, if the window is a multiple of the block size and there is no attention dropout. One
fused kernel then skips the blocks of other documents. The gain has not been measured (docs/gpu.md).

Why FlexAttention on a GPU and not `varlen_attn`: a window has a fixed number of mask blocks, so the mask fits a model
that is compiled as a whole with fixed shapes. The list of document boundaries for variable-length attention has one
entry per document; padded to a fixed length, it either fails on a batch with more documents, or launches work for every
document that could have been there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Queries and keys per block: FlexAttention's default."""

_NARROWEST_HEAD = 16
"""FlexAttention's kernel multiplies tiles of at least 16."""


def document_blocks(tokens: Tensor, eos_id: int, *, head_width: int, dropout: float) -> BlockMask | None:
    """Return the mask of tokens [B, T] int64 as blocks for `block_attention`, built once and shared by all layers.

    Returns None elsewhere, because FlexAttention would compute the whole score matrix. It does not support dropout, and
    windows of whole blocks are the best tested case (its gradients were once NaN for others: pytorch issue 153799).
    """
    fits = tokens.shape[1] % BLOCK == 0 and head_width >= _NARROWEST_HEAD and dropout == 0.0
    return in_blocks(tokens, eos_id) if torch.compiler.is_compiling() and tokens.is_cuda and fits else None


def in_blocks(tokens: Tensor, eos_id: int) -> BlockMask:
    """Build the block mask on any device."""
    from torch.nn.attention.flex_attention import create_block_mask

    document = (tokens == eos_id).cumsum(dim=1, dtype=torch.int32)  # [B, T]

    def visible(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (document[row, query] == document[row, key])

    rows, length = tokens.shape
    return create_block_mask(visible, rows, None, length, length, device=tokens.device, BLOCK_SIZE=BLOCK)


def block_attention(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask) -> Tensor:
    """Compute `attention` under a block mask, skipping blocks of other documents: query [B, H, T, D], key and value
    [B, Hkv, T, D]."""
    from torch.nn.attention.flex_attention import flex_attention

    mixed = flex_attention(query, key, value, block_mask=mask, enable_gqa=query.shape[1] != key.shape[1])
    assert isinstance(mixed, Tensor)  # no auxiliary output was requested
    return mixed
