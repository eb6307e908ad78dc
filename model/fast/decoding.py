"""A model made ready for decoding: the same network, its frozen weights laid out once as a CPU's products read them.

bfloat16 halves what has to be read from memory for each token and runs on matrix units where the CPU has them; a layer
whose weight is packed once takes half the time of one that is given the plain weight, which the library packs anew in
each call. int8 halves the reading again: one scale for each output channel, and for the activations one for each row,
so that no row depends on its neighbours. On a GPU the plain layers are the fast ones: there bf16 is a change of format
alone, and what is launched between the products is saved by `generation.cuda.graph`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from model.blocks import DecoderBlock
from model.fast.decoder_block import DecodingBlock
from model.fast.packed_linear import Int8Linear, Int8Weights, PackedFloat32Linear, PackedLinear, packs, packs_float32
from model.layers import RMSNorm

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
