"""Faster equivalents of `nn.Linear` with frozen weights, packed once for CPU kernels.

Used by `model.fast.decoding.prepare`. Gain: float32 weights packed for 32 rows save 11 % of a decoding step; packed
bfloat16 weights halve the time of a matrix product with AMX (docs/log.md).
"""

from __future__ import annotations

import torch
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
