"""Prepare a model for decoding: the same network, with frozen weights stored in the layout of fast CPU kernels.

bfloat16 halves the memory read per token and uses matrix units if the CPU has them. A layer whose weight is packed once
takes half the time of a layer with a plain weight, which the library packs again in every call. On a GPU the plain
layers are the fastest: there bf16 only converts the weights, and `generation.cuda.graph` removes the overhead of
launching kernels. (Weights in int8 are left to CTranslate2, which is faster: docs/log.md.)
"""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from model.blocks import DecoderBlock
from model.fast.decoder_block import DecodingBlock
from model.fast.packed_linear import PackedFloat32Linear, PackedLinear, packs, packs_float32
from model.layers import RMSNorm

FORMATS = ("float32", "bf16")
"""Formats of weights and activations of `prepare`."""

Model = TypeVar("Model", bound=nn.Module)


def prepare(model: Model, weights: str, rows: int | None = None) -> Model:
    """Return a copy of `model` for decoding: evaluation mode, no gradients, linear layers in one of `FORMATS`.

    rows: number of texts generated together, if known. From 8 rows on, float32 weights are packed in addition to the
    plain weights: a step of exactly this many rows takes 11 % less time. A text depends on the other rows only by the
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
            if type(child) is DecoderBlock and child.arrangement != "post_norm":
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
