"""Faster equivalent of `model.attention.attention`: runs the fastest kernel for the device, dtype and length.

Used everywhere except in recordings, which need the weights that the definition returns. torch's fused kernel does not
store these weights, so that its memory grows with the length and not with its square.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend

from model.fast.explicit_attention import explicit_attention
from model.masks import visible_keys

EXPLICIT_LENGTH = 512
"""Maximum number of keys for which explicit products beat the fused kernel's bfloat16 backward pass on a CPU: 6 x
faster at 64 and 128 keys, 1.9 x at 256, 1.5 x at 512; at 1024 the fused kernel is 1.6 x faster."""


def explicit_is_faster(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> bool:
    """Whether explicit products are faster than the fused kernel for these arguments."""
    if query.device.type != "cpu":
        return False
    if dropout > 0:
        return True
    training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    return training and query.dtype == torch.bfloat16 and key.shape[2] <= EXPLICIT_LENGTH


def fast_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Compute `attention`; the arguments are the same.

    On a CUDA device torch selects a fused kernel (sdp_utils.cpp, 2.11 to 2.13). Decoder training passes the causal flag
    and no mask, which flash and cuDNN support in bf16. The encoder and cross-attention pass neither if no row of the
    batch is padded, and so run the same kernels; otherwise they pass a mask [B, 1, 1, S], which flash does not support
    but cuDNN and the efficient kernel do. (Any S: the efficient kernel reads rows of 8, and torch pads the mask.) Only
    the efficient kernel supports float32. The caller can set the priority if several kernels fit
    (`torch.nn.attention.sdpa_kernel`).
    """
    if explicit_is_faster(query, key, value, dropout):
        return explicit_attention(query, key, value, visible_keys(query, key, causal, key_mask), dropout)
    heads = query.shape[:-1]
    query, key, value, visible, flag = _fused_arguments(query, key, value, causal, key_mask)
    mixed = F.scaled_dot_product_attention(query, key, value, visible, dropout, flag, enable_gqa=_grouped(query, key))
    return mixed if mixed.shape[:-1] == heads else mixed.reshape(*heads, -1)  # the width of values may differ


def attention_backend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    key_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> str:
    """Return the name of the kernel that `attention` would run for these arguments, for the log.

    torch reports the fused kernel, which depends on device, dtype, head width, mask and versions. For some devices,
    such as Apple's GPUs, torch reports none; the log then names only the function.
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
    """Return (query, key, value, attn_mask, is_causal) for torch's fused attention.

    Never pass both mask and flag: torch documents the combination as an error, but its CPU kernel silently applies
    both. The flag is kept if it is equivalent to the mask, because flash kernels do not support masks. (Torch's flag
    aligns the first positions of queries and keys; ours aligns the last.)

    Shared key heads are expanded if only the efficient kernel may fit, i.e. under a mask and in float32: it requires
    as many key heads as query heads (torch 2.11 to 2.13).
    """
    flag = False
    if causal and key_mask is None and query.shape[2] == key.shape[2]:  # a branch: torch accepts no symbolic flag
        flag = True
    visible = None if flag else visible_keys(query, key, causal, key_mask)
    if query.is_cuda and query.shape[1] != key.shape[1] and (visible is not None or query.dtype == torch.float32):
        query, key, value, visible = ungrouped(query, key, value, visible, flag)
    return query, key, value, visible, flag


def _grouped(query: Tensor, key: Tensor) -> bool:
    """Whether query heads share key heads; written as a branch, because torch accepts no symbolic flag."""
    if query.shape[1] != key.shape[1]:  # noqa: SIM103
        return True
    return False


def ungrouped(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Rewrite grouped-query attention with equally many heads: (query, key, value, mask); reshape its output to undo.

    Query heads that share a key head become additional queries of that head, [B, Hkv, G T, D], so that no key is
    copied. Not if `causal`: the causal rule would interpret the order of the stacked queries as positions.
    """
    kv_heads = key.shape[1]
    groups = query.shape[1] // kv_heads
    if causal:
        return query, key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1), None
    if visible is not None and visible.shape[-2] > 1:  # otherwise the mask is the same for every query
        visible = torch.cat([visible] * groups, dim=-2)
    return query.reshape(query.shape[0], kv_heads, -1, query.shape[-1]), key, value, visible
