"""A model made ready for decoding on a CPU: the same network, its frozen weights laid out once as the products read them.

bfloat16 halves what has to be read from memory for each token and runs on matrix units where the CPU has them; a layer
whose weight is packed once takes half the time of one that is given the plain weight, which the library packs anew in
each call. int8 halves the reading again: one scale for each output channel, and for the activations one for each row,
so that no row depends on its neighbours.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.layers import RMSNorm

FORMATS = ("float32", "bf16", "int8")
"""Formats of the weights that `prepare` knows. Activations are bfloat16 for bf16, else float32."""

Model = TypeVar("Model", bound=nn.Module)


def prepare(model: Model, weights: str) -> Model:
    """A copy of `model` in evaluation mode for decoding, its linear layers in one of `FORMATS`; gradients are not possible.

    Where the library lacks a kernel the same numbers are computed with plain ones: the rounding without the speed.
    """
    if weights not in FORMATS:
        raise ValueError(f"weights must be one of {', '.join(FORMATS)}, not {weights!r}")
    ready = deepcopy(model).eval().requires_grad_(False)
    ready.to(torch.bfloat16 if weights == "bf16" else torch.float32)
    for module in list(ready.modules()):
        for name, child in module.named_children():
            if isinstance(child, RMSNorm) and child.weight.device.type == "cpu":
                setattr(module, name, DecodingRMSNorm(child))
            elif isinstance(child, nn.Linear) and weights == "int8":
                setattr(module, name, Int8Linear(child))
            elif isinstance(child, nn.Linear) and weights == "bf16" and packs(child.weight):
                setattr(module, name, PackedLinear(child))
    return ready


def packs(weight: Tensor) -> bool:
    """Whether oneDNN can pack this weight here."""
    return (
        weight.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
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
        self.packed = weight.device.type == "cpu" and hasattr(torch.ops.onednn, "qlinear_pointwise")
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
                rounded.to(torch.int8), 1.0, 0, self.weight, self.scale, self.zero_points, None,
                1.0, 0, torch.float32, "none", [], "",
            )  # fmt: skip
        y *= row_scale
        return y if self.bias is None else y.add_(self.bias)


class DecodingRMSNorm(nn.Module):
    """x / RMS(x) * weight in five short operations, half the time of `F.rms_norm`, which has no kernel of its own on a CPU.

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
