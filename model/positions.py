"""Where a token stands: learned vectors, sinusoids, or rotations of queries and keys.

Every class takes `start`, the position of the first token: an int, or a tensor [B] when the rows of a batch stand at
different positions (cached decoding of prompts of different lengths).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Start = int | Tensor


class LearnedPositions(nn.Module):
    """One trained vector per position; there are `context` of them and no more."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.empty(context, width))

    def forward(self, start: Start, length: int) -> Tensor:
        """Vectors [T, C] for an int start, [B, T, C] for a start per row. Raises ValueError beyond the context."""
        if isinstance(start, Tensor):
            return self.weight[_positions(start, length)]
        if start + length > self.context:
            raise ValueError(
                f"{start + length} tokens are longer than model.context={self.context}; model.position=learned has no "
                "vectors for the rest: shorten the text, or train with a longer context or with rotary positions"
            )
        return self.weight[start : start + length]


class _PositionTable(nn.Module, ABC):
    """Rows computed from the position, kept for the first `context` positions and computed anew beyond them.

    The table stays float32 whatever the module is converted to (rounded to bfloat16 and back it would no longer be
    what a freshly loaded model computes), and it is no part of the state: it follows from the configuration.
    """

    table: Tensor

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.context = context
        self.register_buffer("table", self.compute(context), persistent=False)

    @abstractmethod
    def compute(self, length: int) -> Tensor:
        """The first `length` rows, float32 on the CPU."""

    def rows(self, start: Start, length: int) -> Tensor:
        if isinstance(start, Tensor):
            return self.table[_positions(start, length)]  # [B, T, ...]
        table = self.table
        if start + length > self.context:
            table = self.compute(start + length).to(table.device)
        return table[start : start + length]  # [T, ...]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> _PositionTable:
        super()._apply(fn, recurse)
        self.table = self.compute(self.context).to(self.table.device)
        return self


class SinusoidalPositions(_PositionTable):
    """PE(p, 2i) = sin(p / 10000^(2i/C)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017, section 3.5)."""

    def compute(self, length: int) -> Tensor:
        """[T, C]."""
        angles = _angles(length, self.width)  # [T, C/2]
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # [T, C]

    def forward(self, start: Start, length: int) -> Tensor:
        """Vectors [T, C] (or [B, T, C]) float32; any length."""
        return self.rows(start, length)


class RotaryPositions(_PositionTable):
    """Rotates each pair (i, i + D/2) of a head's query and key by p / 10000^(2i/D) (Su et al. 2021, equation 34).

    A score then depends on the distance of query and key alone. Pairs lie half a head apart, not side by side: which
    entries make a pair is a matter of naming, and so the rotation works on whole runs of memory. The forward pass
    returns the rotation, which all layers share; `rotate` applies it.
    """

    def compute(self, length: int) -> Tensor:
        """[T, 2, D]: the cosines, and the sines with the sign that the other half of the pair takes."""
        angles = _angles(length, self.width)  # [T, D/2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)), dim=1)  # [T, 2, D]

    def forward(self, start: Start, length: int) -> Tensor:
        """The rotation [T, 2, 1, D] (or [B, T, 2, 1, D]) float32: cosines and sines for all heads; any length."""
        return self.rows(start, length).unsqueeze(-2)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn x [B, T, H, D] by a rotation from `RotaryPositions`; computed in x's dtype."""
    cos, sin = rotation.to(x.dtype).unbind(-3)  # [T, 1, D] or [B, T, 1, D]
    if torch.compiler.is_compiling():  # the compiler makes one pass of this, and scalar code of the form below
        half = x.shape[-1] // 2
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            (first * cos[..., :half] + second * sin[..., :half], second * cos[..., half:] + first * sin[..., half:]),
            dim=-1,
        )
    return _EagerRotation.apply(x, cos, sin) if torch.is_grad_enabled() else _turned(x, cos, sin)


class _EagerRotation(torch.autograd.Function):
    """Three passes over memory, backwards the same three the other way round: 0.4 times the time of autograd's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(grad, cos, -sin), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = x * cos
    turned[..., :half].addcmul_(x[..., half:], sin[..., :half])
    turned[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return turned


def _positions(start: Tensor, length: int) -> Tensor:
    return start.unsqueeze(1) + torch.arange(length, device=start.device)  # [B, T]


def _angles(length: int, width: int) -> Tensor:
    """Angle of each position and frequency, [T, width/2] float32.

    Computed in float64, because float32 loses the phase of far positions; on the CPU, as not every device has it.
    """
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), frequencies).float()
