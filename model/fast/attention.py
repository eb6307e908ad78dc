"""Equals `model.attention.attention`, by the fastest kernel for device, dtype and length.

Taken: always; recordings alone compute the definition. Gain: torch's fused kernel keeps no weights; for the explicit
products see there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend

from model.fast.document_mask import block_attention
from model.fast.explicit_attention import explicit_attention
from model.masks import visible_keys

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


EXPLICIT_LENGTH = 512
"""Keys up to which explicit products beat the fused kernel's bfloat16 backward pass on a CPU: 6 x faster at 64 and 128
keys, 1.9 x at 256, 1.5 x at 512; at 1024 the fused kernel is 1.6 x faster."""

DECODING_QUERIES = 8
DECODING_HEADS = 64
"""Up to so many queries in each of so many heads of a batch or more, plain float32 products beat the fused kernel on a
CPU: one query of 32 rows with 4 heads takes 0.6 of its time, one of 1 row 1.6. In bfloat16 the kernel is always faster.
"""


def explicit_is_faster(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> bool:
    """Whether explicit products are faster than the fused kernel here."""
    if query.device.type != "cpu":
        return False
    if dropout > 0:
        return True
    training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    if not training:
        rows, heads, queries, _ = query.shape
        few, many = queries <= DECODING_QUERIES, rows * heads >= DECODING_HEADS
        return query.dtype == torch.float32 and few and many
    return query.dtype == torch.bfloat16 and key.shape[2] <= EXPLICIT_LENGTH


def fast_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | BlockMask | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Arguments as `attention`; key_mask may also be in blocks, without dropout.

    On a CUDA device all of it is fused, by torch's rules of choice (sdp_utils.cpp, 2.11 to 2.13). A decoder's training
    gives the flag and no mask, which flash and cuDNN take in bf16. An encoder and cross-attention give neither where no
    row of the batch is padded, and so run the same kernels; else [B, 1, 1, S], which flash refuses, cuDNN and the
    efficient kernel do not. (Any S: the latter reads rows of 8, to which torch pads the mask itself.) The efficient
    kernel alone takes float32. Which goes first where several fit is the caller's to say
    (`torch.nn.attention.sdpa_kernel`).
    """
    if key_mask is not None and not isinstance(key_mask, Tensor):
        return block_attention(query, key, value, key_mask)
    if explicit_is_faster(query, key, value, dropout):
        return explicit_attention(query, key, value, visible_keys(query, key, causal, key_mask), dropout)
    heads = query.shape[:-1]
    query, key, value, visible, flag = _fused_arguments(query, key, value, causal, key_mask)
    mixed = F.scaled_dot_product_attention(query, key, value, visible, dropout, flag, enable_gqa=_grouped(query, key))
    return mixed if mixed.shape[:-1] == heads else mixed.reshape(*heads, -1)  # values may have a width of their own


def attention_backend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> str:
    """Name of the kernel that `attention` would run for these arguments, for the log.

    The fused kernel's name is torch's own answer: the choice depends on device, dtype, head width, mask and versions.
    For some devices, such as Apple's GPUs, torch has no answer; then the name of the function is all there is to say.
    """
    if explicit_is_faster(query, key, value, dropout):
        return f"explicit {str(query.dtype).removeprefix('torch.')} products"
    query, key, value, visible, flag = _fused_arguments(query, key, value, causal, key_mask)
    try:
        choice = torch._fused_sdp_choice(query, key, value, visible, dropout, flag, enable_gqa=_grouped(query, key))
    except NotImplementedError:
        return "scaled_dot_product_attention"
    return f"scaled_dot_product_attention, {SDPBackend(choice).name.lower().replace('_', ' ')}"


def _fused_arguments(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, key_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, bool]:
    """(query, key, value, attn_mask, is_causal) for torch's fused attention.

    Never mask and flag: torch documents the pair as an error, and its CPU kernel applies both without a word. The flag
    is kept where it says the same as the mask would, because flash kernels refuse masks. (Torch's flag aligns the first
    positions of queries and keys, ours the last.)

    Heads that share keys are spread out where the efficient kernel, which wants as many of both (torch 2.11 to 2.13),
    may be the only one that fits: under a mask and in float32.
    """
    flag = False
    if causal and key_mask is None and query.shape[2] == key.shape[2]:  # decided here: torch takes no symbolic flag
        flag = True
    visible = None if flag else visible_keys(query, key, causal, key_mask)
    if query.is_cuda and query.shape[1] != key.shape[1] and (visible is not None or query.dtype == torch.float32):
        query, key, value, visible = ungrouped(query, key, value, visible, flag)
    return query, key, value, visible, flag


def _grouped(query: Tensor, key: Tensor) -> bool:
    """Whether query heads share keys; decided by a branch, because torch takes no symbolic flag."""
    if query.shape[1] != key.shape[1]:  # noqa: SIM103
        return True
    return False


def ungrouped(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Grouped-query attention as one with equally many heads: (query, key, value, mask); its output, reshaped, is the
    same.

    Query heads that share a key head become more queries of it, [B, Hkv, G T, D], and no key is copied, unless
    `causal`: that rule would take their order for one of positions.
    """
    kv_heads = key.shape[1]
    groups = query.shape[1] // kv_heads
    if causal:
        return query, key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1), None
    if visible is not None and visible.shape[-2] > 1:  # else it says the same of every query
        visible = torch.cat([visible] * groups, dim=-2)
    return query.reshape(query.shape[0], kv_heads, -1, query.shape[-1]), key, value, visible
