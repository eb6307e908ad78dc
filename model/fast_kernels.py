"""Faster forms of the functions that `model` defines: the same results (of dropout: the same distribution), faster on
some hardware.

A definition with a faster form is decorated with that form, as `rotate` with `@accelerated_by(fast_rotate)`. A call of
`rotate` first tries `fast_rotate`, which returns the result, or None if it is no faster than the definition; in that
case the definition runs. Only this file branches on devices, dtypes, gradients and compilation. The plain definition is
`inspect.unwrap(rotate)`: tests compare values and gradients of the two. Gains: docs/log.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from model.masks import Mask, visible_keys

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def accelerated_by(form: Callable[..., Any]) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Decorate a definition: calls go to `form`, and to the definition if `form` returns None."""

    def decorate(definition: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(definition)
        def fastest(*arguments: Arguments.args, **settings: Arguments.kwargs) -> Result:
            result = form(*arguments, **settings)
            return definition(*arguments, **settings) if result is None else result

        return fastest

    return decorate


# --- RMSNorm: `model.layers.rms_norm`


def fast_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor | None:
    """Run `_RMSNorm` on a CPU if gradients are needed; torch's kernel on other devices."""
    if x.device.type != "cpu":
        return F.rms_norm(x, weight.shape, weight.to(x.dtype), eps)
    if x.dtype == weight.dtype and torch.is_grad_enabled():
        return _RMSNorm.apply(x, weight, eps)
    return None


class _RMSNorm(torch.autograd.Function):
    """RMSNorm with a hand-written backward pass for CPUs, eager and compiled.

    torch has no CPU kernel for RMSNorm: `F.rms_norm` and its backward pass make a dozen passes over memory. This class
    makes half as many, with both reductions of the gradient as matrix-vector products.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        if torch.compiler.is_compiling():
            scale = x.to(wide).square().mean(dim=-1, keepdim=True).add(eps).rsqrt().to(x.dtype)  # [..., 1]
            normalised = x * scale * weight  # not in place: torch 2.11 compiles that to wrong gradients
        else:
            norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)
            scale = norm.square_().mul_(1 / x.shape[-1]).add_(eps).rsqrt_().to(x.dtype)  # [..., 1]
            normalised = (x * scale).mul_(weight)
        ctx.save_for_backward(x, scale, weight)
        return normalised

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scale, weight = ctx.saved_tensors
        product = (grad * x).reshape(-1, x.shape[-1])  # [N, C]
        grad_weight = torch.mm(scale.reshape(1, -1), product).view(-1)  # [C]
        if torch.compiler.is_compiling():
            along_x = (grad * x * weight).sum(dim=-1, keepdim=True)
            return (grad * weight - x * (along_x * scale.square() / x.shape[-1])) * scale, grad_weight, None
        along_x = torch.mv(product, weight).view(scale.shape).mul_(scale.square().mul_(-1 / x.shape[-1]))  # [..., 1]
        return torch.addcmul(grad * weight, x, along_x).mul_(scale), grad_weight, None


# --- Dropout: `model.layers.dropout`

_POOL = 1 << 22  # minimum number of entries in a pool of masks: 8 MB in bfloat16
hash_masks = False  # whether eager code draws the masks of compiled code, to compare the results of both


def fast_dropout(x: Tensor, probability: float) -> Tensor | None:
    """Apply fast dropout masks on a CPU, and on any device when compiled: there torch draws one random number per
    element, on a CPU on one thread, which can take longer than the surrounding matrix products."""
    if x.device.type == "cpu" or torch.compiler.is_compiling() or hash_masks:
        return _dropped(x, probability)
    return None


def _dropped(x: Tensor, probability: float) -> Tensor:
    """In eager mode a mask is a slice at a random offset of a pool drawn once: one pass over memory, as fast as an
    addition. When compiled, the mask is recomputed where it is used, from the element index and a random seed."""
    if torch.compiler.is_compiling() or hash_masks:
        seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=x.device)
        keep = _hashed(x.shape, seed) >= round(probability * 2**32) - 2**31
        return torch.where(keep, x * (1 / (1 - probability)), 0.0)
    entries = x.numel()
    # Twice the size needed, so that offsets differ; a power of two, so that few lengths share the same pool.
    pool = _mask_pool(probability, max(_POOL, 1 << (2 * entries - 1).bit_length()), x.dtype)
    start = int(torch.randint(len(pool) - entries + 1, ()))
    return x * pool[start : start + entries].view(x.shape)


@lru_cache(maxsize=8)
def _mask_pool(probability: float, entries: int, dtype: torch.dtype) -> Tensor:
    """Return a pool [entries] of 1 / (1 - p) with probability 1 - p, else 0. It is the same in every process, so that
    a resumed run reproduces the original."""
    draws = torch.randint(2**16, (entries,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    return (draws >= round(probability * 2**16)).to(dtype).mul_(1 / (1 - probability))


def _hashed(shape: torch.Size, seed: Tensor) -> Tensor:
    """Hash each element's index to an int32: Wellons' `lowbias32` (github.com/skeeto/hash-prospector) without its first
    and last shift."""
    x = torch.arange(math.prod(shape), dtype=torch.int32, device=seed.device).view(shape) ^ seed
    x = x * 0x7FEB352D
    return (x ^ (x >> 15 & 0x1FFFF)) * (0x846CA68B - 2**32)


# --- Rotary positions: `model.embedding.rotate`


def fast_rotate(x: Tensor, rotation: Tensor) -> Tensor | None:
    """Rotate x [B, T, H, D] in three passes over memory."""
    if torch.compiler.is_compiling():  # the compiler fuses the definition into one pass
        return None
    cos, sin = rotation.to(x.dtype).unbind(-3)
    return _Rotation.apply(x, cos, sin) if torch.is_grad_enabled() else _rotated(x, cos, sin, 1)


class _Rotation(torch.autograd.Function):
    """A rotation whose gradient is the rotation by the opposite angle."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotated(grad, cos, sin, -1), None, None


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, sign: int) -> Tensor:
    if x.dtype == torch.bfloat16 and x.shape[-1] < 64:  # half a head is shorter than a vector: slow in place
        first, second = x.chunk(2, dim=-1)
        swapped = torch.cat((second, first), dim=-1)
        return (x * torch.cat((cos, cos), dim=-1)).addcmul_(swapped, torch.cat((-sin, sin), dim=-1), value=sign)
    halves = x.unflatten(-1, (2, -1))  # [B, T, H, 2, D/2]
    rotated = halves * cos.unsqueeze(-2)
    (first, second), (to_first, to_second) = halves.unbind(-2), rotated.unbind(-2)
    to_first.addcmul_(second, sin, value=-sign)
    to_second.addcmul_(first, sin, value=sign)
    return rotated.flatten(-2)


# --- Attention: `model.attention.attention`

EXPLICIT_LENGTH = 512
"""Maximum number of keys for which explicit products beat the fused kernel's bfloat16 backward pass on a CPU."""


def fast_attention(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Mask = None, dropout: float = 0.0
) -> Tensor:
    """Compute `attention`; the arguments are the same. Recordings, which need the weights, call `reference_attention`.

    torch's fused kernel does not store the weights, so that its memory grows with the length and not with its square.
    Which kernel a GPU runs depends on mask and dtype: `training.hardware.gpu_attention`.
    """
    if explicit_is_faster(query, key, value, dropout):
        return _explicit_attention(query, key, value, visible_keys(query, key, causal, key_mask), dropout)
    heads = query.shape[:-1]
    query, key, value, visible, flag, grouped = fused_arguments(query, key, value, causal, key_mask)
    mixed = F.scaled_dot_product_attention(query, key, value, visible, dropout, flag, enable_gqa=grouped)
    return mixed if mixed.shape[:-1] == heads else mixed.reshape(*heads, -1)  # the width of values may differ


def explicit_is_faster(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> bool:
    """Whether explicit products are faster than the fused kernel: on a CPU that kernel is slow with dropout, and its
    backward pass is slow in bfloat16."""
    if query.device.type != "cpu":
        return False
    if dropout > 0:
        return True
    training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    return training and query.dtype == torch.bfloat16 and key.shape[2] <= EXPLICIT_LENGTH


def _explicit_attention(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout: float) -> Tensor:
    """Compute attention under `visible` (from `visible_keys`) as matrix products in the inputs' dtype that keep the
    weights. Query heads that share a key head become its queries."""
    batch, heads, queries, width = query.shape
    kv_heads, length = key.shape[1:3]
    groups = heads // kv_heads
    query = query.reshape(batch * kv_heads, groups * queries, width)
    key = key.reshape(batch * kv_heads, length, width).transpose(1, 2)
    value = value.reshape(batch * kv_heads, length, width)
    bias = None  # 0 if a query sees a key, else -inf
    if visible is not None:
        bias = torch.zeros_like(visible, dtype=query.dtype).masked_fill_(~visible, float("-inf"))
        if groups > 1 or bias.dim() == 4:  # otherwise [T, S], which the product broadcasts
            per_head = bias if bias.dim() == 2 else bias.unsqueeze(2)  # [T, S] or [B, 1, 1, T, S]
            bias = per_head.expand(batch, kv_heads, groups, queries, length).reshape(-1, groups * queries, length)
    if bias is None:
        scores = torch.bmm(query * width**-0.5, key)  # [B Hkv, G T, S]
    else:
        scores = torch.baddbmm(bias, query, key, alpha=width**-0.5)
    weights = scores.softmax(dim=-1)
    if dropout > 0:
        weights = _dropped(weights, dropout)
    return torch.bmm(weights, value).view(batch, heads, queries, width)


def fused_arguments(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, key_mask: Mask
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, bool, bool]:
    """Return (query, key, value, attn_mask, is_causal, enable_gqa) for torch's fused attention: a mask or the causal
    flag, never both, since its CPU kernel silently applies both. Where they are equivalent the flag, because flash
    kernels support no mask. (Torch's flag aligns the first positions of queries and keys; ours aligns the last.)"""
    flag = grouped = False  # set by branches: a compiled `flag = a == b` would be symbolic, which torch rejects here
    if causal and key_mask is None and query.shape[2] == key.shape[2]:
        flag = True
    visible = None if flag else visible_keys(query, key, causal, key_mask)
    # Under a mask and in float32 only the efficient kernel fits, which needs as many key heads as query heads.
    if query.is_cuda and query.shape[1] != key.shape[1] and (visible is not None or query.dtype == torch.float32):
        query, key, value, visible = ungrouped(query, key, value, visible, flag)
    if query.shape[1] != key.shape[1]:
        grouped = True
    return query, key, value, visible, flag, grouped


def ungrouped(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Rewrite grouped-query attention with equally many heads: (query, key, value, mask); reshape its output to undo.
    Query heads that share a key head become additional queries of that head, [B, Hkv, G T, D], so that no key is
    copied. Not if `causal`: the causal rule would interpret the order of the stacked queries as positions."""
    kv_heads = key.shape[1]
    groups = query.shape[1] // kv_heads
    if causal:
        return query, key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1), None
    if visible is not None and visible.shape[-2] > 1:  # otherwise the mask is the same for every query
        visible = torch.cat([visible] * groups, dim=-2)
    return query.reshape(query.shape[0], kv_heads, -1, query.shape[-1]), key, value, visible
