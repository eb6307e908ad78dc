"""A model made ready for decoding: the same network, its frozen weights laid out once as a CPU's products read them.

bfloat16 halves what has to be read from memory for each token and runs on matrix units where the CPU has them; a layer
whose weight is packed once takes half the time of one that is given the plain weight, which the library packs anew in
each call. int8 halves the reading again: one scale for each output channel, and for the activations one for each row,
so that no row depends on its neighbours. On a GPU the plain layers are the fast ones: there bf16 is a change of format
alone, and what is launched between the products is saved by `generation.cuda.graph`.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import DECODING_HEADS, attention
from model.blocks import DecoderBlock
from model.cache import KVCache
from model.layers import RMSNorm
from model.positions import rotate

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

FORMATS = ("float32", "bf16", "int8")
"""Formats of the weights that `prepare` knows. Activations are bfloat16 for bf16 and for a single row of int8, else
float32."""

Model = TypeVar("Model", bound=nn.Module)


def prepare(model: Model, weights: str, rows: int | None = None) -> Model:
    """A copy of `model` in evaluation mode for decoding, its linear layers in one of `FORMATS`; gradients are not
    possible.

    rows: how many texts will be written together, where that is known. For 1, int8 has a form of its own, twice as fast
    for one row. (With more than 16 rows that form rounds otherwise; in all others a text depends on those beside it by
    no more than the last bits of a product.) From 8 on, float32 weights are packed beside the plain ones: a twentieth
    less time for a step while there are as many.

    What is returned decodes and nothing else: it can be neither moved nor recorded, and shows no parameters of its
    blocks.

    Where the library lacks a kernel the same numbers are computed with plain ones: the rounding without the speed.
    """
    if weights not in FORMATS:
        raise ValueError(f"weights must be one of {', '.join(FORMATS)}, not {weights!r}")
    ready = deepcopy(model).eval().requires_grad_(False)
    one_row = weights == "int8" and rows == 1 and next(ready.parameters()).device.type == "cpu"
    ready.to(torch.bfloat16 if weights == "bf16" else torch.float32)
    for module in list(ready.modules()):
        for name, child in module.named_children():
            if isinstance(child, RMSNorm) and child.weight.device.type == "cpu":
                setattr(module, name, DecodingRMSNorm(child))
            elif isinstance(child, nn.Linear) and weights == "int8":
                setattr(module, name, Int8Weights(child) if one_row else Int8Linear(child))
            elif isinstance(child, nn.Linear) and weights == "bf16" and packs(child.weight):
                setattr(module, name, PackedLinear(child))
            elif isinstance(child, nn.Linear) and weights == "float32" and rows and packs_float32(child.weight, rows):
                setattr(module, name, PackedFloat32Linear(child, rows))
    if one_row:  # only now: the weights are rounded once, from the exact ones
        ready.to(torch.bfloat16)
    for module in list(ready.modules()):
        for name, child in module.named_children():
            if type(child) is DecoderBlock:
                setattr(module, name, DecodingBlock(child))
    return ready


def packs(weight: Tensor) -> bool:
    """Whether oneDNN can pack this bfloat16 weight here."""
    return (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def packs_float32(weight: Tensor, rows: int) -> bool:
    """Whether MKL is here to pack this float32 weight, and gains by it: for one or two rows it loses a twentieth."""
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
        """x [..., in] bfloat16."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class PackedFloat32Linear(nn.Module):
    """x Wᵀ + b in float32, [..., in] to [..., out], with W packed for `rows` rows; any other number takes W
    as it is."""

    def __init__(self, linear: nn.Linear, rows: int) -> None:
        super().__init__()
        self.rows, self.bias, self.weight = rows, linear.bias, linear.weight.detach()
        self.packed = torch.ops.mkl._mkl_reorder_linear_weight(self.weight, rows)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] float32."""
        return torch.ops.mkl._mkl_linear(x, self.packed, self.weight, self.bias, self.rows)


class Int8Linear(nn.Module):
    """x Wᵀ + b with both factors rounded to 8 bits, [..., in] float32 to [..., out] float32.

    Symmetric: W = scale[out] * w, x = scale[row] * q with w and q from -127 to 127; the products are summed exactly.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()  # [out, in]
        self.scale = (weight.abs().amax(dim=1) / 127).clamp_(min=1e-12)  # [out]
        rounded = (weight / self.scale.unsqueeze(1)).round().to(torch.int8)
        self.bias = linear.bias
        # torch declares the operations where it was built without oneDNN too (Apple Silicon): they then raise.
        self.packed = weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None) if self.packed else rounded.float()
        self.zero_points = torch.zeros(len(rounded), dtype=torch.int32)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] float32."""
        row_scale = x.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-12).mul_(1 / 127)  # [..., 1]
        rounded = (x / row_scale).round_()
        if not self.packed:
            y = F.linear(rounded, self.weight) * self.scale
        else:
            y = torch.ops.onednn.qlinear_pointwise(
                rounded.to(torch.int8),
                1.0,
                0,
                self.weight,
                self.scale,
                self.zero_points,
                None,
                1.0,
                0,
                torch.float32,
                "none",
                [],
                "",
            )
        y *= row_scale
        return y if self.bias is None else y.add_(self.bias)


class Int8Weights(nn.Module):
    """x Wᵀ + b with W rounded to 8 bits, W = scale[out] * w, and x [..., in] bfloat16 as it is.

    For a single row there is nothing to gain by rounding x: what takes time is reading W, and the calls.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()  # [out, in]
        self.scale = (weight.abs().amax(dim=1) / 127).clamp_(min=1e-12).bfloat16()  # [out]
        self.weight = (weight / self.scale.unsqueeze(1)).round_().clamp_(-127, 127).to(torch.int8)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] bfloat16."""
        *rows, width = x.shape
        if math.prod(rows) <= 16:
            y = torch.ops.aten._weight_int8pack_mm(x.view(-1, width), self.weight, self.scale).view(*rows, -1)
        else:  # a prompt: the kernel's time grows with each row
            y = F.linear(x, self.weight.to(x.dtype)).mul_(self.scale)
        return y if self.bias is None else y.add_(self.bias)


class DecodingRMSNorm(nn.Module):
    """x / RMS(x) * weight in five short operations, half the time of `F.rms_norm`, which has no kernel of its own on a
    CPU.

    RMS(x) = √(|x|² / C + ε) is hypot(|x|, √(C ε)) / √C: the squares never leave the library's norm and hypotenuse.
    """

    def __init__(self, norm: RMSNorm) -> None:
        super().__init__()
        width = norm.weight.shape[0]
        self.gain = norm.weight.detach().float() * width**0.5
        self.floor = torch.tensor((width * norm.eps) ** 0.5, device=norm.weight.device)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., width] to the same shape and dtype."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        gain = self.gain.to(x.dtype)
        return (x / torch.hypot(length, self.floor).to(x.dtype)).mul_(gain)


class DecodingBlock(nn.Module):
    """A decoder block whose step for one new token takes as few calls as it can, for in a small model calls are the
    time.

    It keeps the layers' forward methods rather than the layers: a call of a module looks for hooks that are not there.
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
        documents: Tensor | BlockMask | None = None,
    ) -> Tensor:
        """x [B, T, C] to [B, T, C]; arguments as `DecoderBlock`."""
        batch, tokens, width = x.shape
        fused = self.query_key_value(self.attention_norm(x)).view(batch, tokens, -1, self.head_width)
        query_key, value = fused.split_with_sizes((self.heads + self.kv_heads, self.kv_heads), 2)  # [B, T, H, D]
        if self.query_key_norm is not None:
            query_key = self.query_key_norm(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, key = query_key.transpose(1, 2).split_with_sizes((self.heads, self.kv_heads), 1)  # [B, H, T, D]
        value, mask = value.transpose(1, 2), documents
        if cache is not None:
            key, value, mask = cache.append(self.layer, key, value)
        once = tokens == 1 and mask is None
        mixed = attend_once(query, key, value) if once else attention(query, key, value, causal=True, key_mask=mask)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.feed_forward(self.feed_forward_norm(x))


def attend_once(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`attention` of a single query [B, H, 1, D] that sees all keys [B, Hkv, S, D]."""
    batch, kv_heads, keys, width = key.shape
    heads = query.shape[1]
    if query.device.type != "cpu" or query.dtype != torch.float32 or batch * heads < DECODING_HEADS:
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=heads != kv_heads)
    query = query.reshape(batch * kv_heads, -1, width) * width**-0.5  # [B Hkv, G, D]
    weights = torch.bmm(query, key.reshape(-1, keys, width).transpose(1, 2)).softmax(dim=-1)  # [B Hkv, G, S]
    return torch.bmm(weights, value.reshape(-1, keys, width)).view(batch, heads, 1, width)
