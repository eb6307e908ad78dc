"""Faster equivalents of `nn.Linear` with frozen weights: packed once for CPU kernels, or rounded to 8 bits.

Used by `model.fast.decoding.prepare`. Gain: float32 weights packed for 32 rows save 11 % of a decoding step; packed
bfloat16 weights halve the time of a matrix product with AMX (docs/log.md).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def packs(weight: Tensor) -> bool:
    """Whether oneDNN can pack this bfloat16 weight on this machine."""
    return (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def packs_float32(weight: Tensor, rows: int) -> bool:
    """Whether MKL can pack this float32 weight and packing pays off: with one or two rows it costs 5 %."""
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
        # torch also declares these operations in builds without oneDNN (Apple Silicon), where they raise.
        self.packed = weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self.weight = torch.ops.onednn.qlinear_prepack(rounded, None) if self.packed else rounded.float()
        self.zero_points = torch.zeros(len(rounded), dtype=torch.int32)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to x [..., in] float32."""
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
    """x Wᵀ + b with W rounded to 8 bits, W = scale[out] * w, and x [..., in] unrounded in bfloat16.

    For a single row, rounding x gains nothing: the time goes into reading W and into call overhead.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()  # [out, in]
        self.scale = (weight.abs().amax(dim=1) / 127).clamp_(min=1e-12).bfloat16()  # [out]
        self.weight = (weight / self.scale.unsqueeze(1)).round_().clamp_(-127, 127).to(torch.int8)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to x [..., in] bfloat16."""
        *rows, width = x.shape
        if math.prod(rows) <= 16:
            y = torch.ops.aten._weight_int8pack_mm(x.view(-1, width), self.weight, self.scale).view(*rows, -1)
        else:  # a prompt: the kernel's time grows with the number of rows
            y = F.linear(x, self.weight.to(x.dtype)).mul_(self.scale)
        return y if self.bias is None else y.add_(self.bias)
