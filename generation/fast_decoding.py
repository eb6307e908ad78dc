"""Prepare a model for decoding: the same network, with frozen weights in the layout of fast CPU kernels.

bfloat16 halves the memory read per token and uses matrix units if the CPU has them. A layer whose weight is packed once
takes half the time of a layer with a plain weight, which the library packs again in every call. On a GPU the plain
layers are the fastest: there bf16 only converts the weights, and `generation.cuda.graph` removes the overhead of
launching kernels. (Weights in int8 are left to CTranslate2, which is faster: docs/log.md.)
"""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import attention
from model.blocks import DecoderBlock
from model.cache import KVCache
from model.embedding import rotate
from model.layers import RMSNorm

FORMATS = ("float32", "bf16")
"""Formats of weights and activations of `prepare`."""

Model = TypeVar("Model", bound=nn.Module)


def prepare(model: Model, weights: str, rows: int | None = None) -> Model:
    """Return a copy of `model` for decoding: evaluation mode, no gradients, linear layers in one of `FORMATS`.

    rows: number of texts generated together, if known. From 8 rows on, float32 weights are packed in addition to the
    plain weights: a step of exactly this many rows takes less time. A text depends on the other rows only by the
    last bits of a product.

    The returned model only decodes: it cannot be moved or recorded, and exposes no parameters of its blocks.

    If the library lacks a kernel, plain kernels compute the same numbers: the same rounding without the speedup.
    """
    if weights not in FORMATS:
        raise ValueError(f"weights must be one of {', '.join(FORMATS)}, not {weights!r}")
    ready = deepcopy(model).eval().requires_grad_(False)
    ready.to(torch.bfloat16 if weights == "bf16" else torch.float32)
    for module in list(ready.modules()):
        for name, child in module.named_children():
            if isinstance(child, RMSNorm) and child.weight.device.type == "cpu":
                setattr(module, name, DecodingRMSNorm(child))
            elif isinstance(child, nn.Linear) and weights == "bf16" and packs(child.weight):
                setattr(module, name, PackedLinear(child))
            elif isinstance(child, nn.Linear) and weights == "float32" and rows and packs_float32(child.weight, rows):
                setattr(module, name, PackedFloat32Linear(child, rows))
    for module in list(ready.modules()):
        for name, child in module.named_children():
            if type(child) is DecoderBlock:
                setattr(module, name, DecodingBlock(child))
    return ready


class DecodingRMSNorm(nn.Module):
    """x / RMS(x) * weight in five cheap operations, twice as fast as `F.rms_norm`, which has no CPU kernel.

    RMS(x) = √(|x|² / C + ε) is hypot(|x|, √(C ε)) / √C: the library's norm and hypot handle the squares internally.
    """

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        width = norm.weight.shape[0]
        self.gain = norm.weight.detach().float() * width**0.5
        self.floor = torch.tensor((width * norm.eps) ** 0.5, device=norm.weight.device)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [..., width]; same shape and dtype."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        gain = self.gain.to(x.dtype)
        return (x / torch.hypot(length, self.floor).to(x.dtype)).mul_(gain)


class DecodingBlock(nn.Module):
    """A decoder block with as few calls per new token as possible: in a small model, call overhead dominates.

    It stores the layers' forward methods instead of the layers, because a module call also checks for hooks.
    """

    def __init__(self, block: DecoderBlock) -> None:
        super().__init__()
        attention = block.attention
        self.layer, self.head_width = attention.layer, attention.head_width
        self.heads, self.kv_heads = attention.heads, attention.kv_heads
        self.attention_norm, self.feed_forward_norm = block.attention_norm.forward, block.feed_forward_norm.forward
        self.query_key_value, self.output = attention.query_key_value.forward, attention.output.forward
        self.query_key_norm = None if attention.query_key_norm is None else attention.query_key_norm.forward
        self.feed_forward = block.feed_forward.forward

    def forward(
        self,
        x: Tensor,
        rotation: Tensor | None = None,
        cache: KVCache | None = None,
        document_mask: Tensor | None = None,
    ) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; arguments as in `DecoderBlock`."""
        batch, tokens, width = x.shape
        fused = self.query_key_value(self.attention_norm(x)).view(batch, tokens, -1, self.head_width)
        query_key, value = fused.split_with_sizes((self.heads + self.kv_heads, self.kv_heads), 2)  # [B, T, H, D]
        if self.query_key_norm is not None:
            query_key = self.query_key_norm(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, key = query_key.transpose(1, 2).split_with_sizes((self.heads, self.kv_heads), 1)  # [B, H, T, D]
        value, mask = value.transpose(1, 2), document_mask
        if cache is not None:
            key, value, mask = cache.append(self.layer, key, value)
        if tokens == 1 and mask is None:  # attends to all keys: the kernel itself, without the choice of a kernel
            mixed = F.scaled_dot_product_attention(query, key, value, enable_gqa=self.heads != self.kv_heads)
        else:
            mixed = attention(query, key, value, causal=True, key_mask=mask)
        attended = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return attended + self.feed_forward(self.feed_forward_norm(attended))


def packs(weight: Tensor) -> bool:
    """Whether oneDNN can pack this bfloat16 weight on this machine."""
    return (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def packs_float32(weight: Tensor, rows: int) -> bool:
    """Whether MKL can pack this float32 weight and packing pays off: with one or two rows it costs time."""
    return (
        weight.device.type == "cpu"
        and rows >= 8
        and torch.backends.mkl.is_available()
        and hasattr(torch.ops.mkl, "_mkl_linear")
    )


class PackedLinear(nn.Module):
    """x Wᵀ + b in bfloat16, [..., in] to [..., out], with W packed once."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to x [..., in] bfloat16."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class PackedFloat32Linear(nn.Module):
    """x Wᵀ + b in float32, [..., in] to [..., out], with W packed for inputs of exactly `rows` rows; other
    inputs use the plain W."""

    def __init__(self, linear: nn.Linear, rows: int) -> None:
        super().__init__()
        self.rows, self.bias, self.weight = rows, linear.bias, linear.weight.detach()
        self.packed = torch.ops.mkl._mkl_reorder_linear_weight(self.weight, rows)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to x [..., in] float32."""
        return torch.ops.mkl._mkl_linear(x, self.packed, self.weight, self.bias, self.rows)
