"""Equals `model.masks.document_mask` and attention under it, in blocks for FlexAttention.

Taken: in compiled code for a GPU, windows of whole blocks, no attention dropout; there it is one fused kernel, which
leaves out the blocks of other documents. Gain: not measured; see `docs/gpu.md`.

Why FlexAttention on a GPU, not `varlen_attn`: its mask is made of blocks of a window, whose number is fixed, so that it
fits into a model that is compiled whole with fixed shapes. The list of borders that variable-length attention reads is
as long as a batch has documents; padded to a fixed length it either breaks on a batch with more, or starts a block of
work for each document that could have been there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Queries and keys of a block: FlexAttention's own size."""

_NARROWEST_HEAD = 16
"""FlexAttention's kernel multiplies tiles of 16 at least."""


def document_blocks(tokens: Tensor, eos_id: int, *, head_width: int, dropout: float) -> BlockMask | None:
    """The mask of tokens [B, T] int64 in blocks for `block_attention`, made once and shared by all layers.

    Elsewhere FlexAttention would compute the whole matrix of scores. It drops no weights, and windows of whole blocks
    are the trodden path (its gradients were once NaN for others: pytorch issue 153799).
    """
    fits = tokens.shape[1] % BLOCK == 0 and head_width >= _NARROWEST_HEAD and dropout == 0.0
    return in_blocks(tokens, eos_id) if torch.compiler.is_compiling() and tokens.is_cuda and fits else None


def in_blocks(tokens: Tensor, eos_id: int) -> BlockMask:
    """The same on any device."""
    from torch.nn.attention.flex_attention import create_block_mask

    document = (tokens == eos_id).cumsum(dim=1, dtype=torch.int32)  # [B, T]

    def visible(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (document[row, query] == document[row, key])

    rows, length = tokens.shape
    return create_block_mask(visible, rows, None, length, length, device=tokens.device, BLOCK_SIZE=BLOCK)


def block_attention(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask) -> Tensor:
    """`attention` under a mask in blocks, those of other documents left out: query [B, H, T, D], key and value [B, Hkv,
    T, D]."""
    from torch.nn.attention.flex_attention import flex_attention

    mixed = flex_attention(query, key, value, block_mask=mask, enable_gqa=query.shape[1] != key.shape[1])
    assert isinstance(mixed, Tensor)  # nothing else was asked for
    return mixed
