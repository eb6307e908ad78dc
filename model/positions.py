"""Where a token stands: learned vectors, sinusoids, or rotations of queries and keys.

Every class takes `start`, the position of the first token: an int, or a tensor [B] when the rows of a batch stand at
different positions (cached decoding of prompts of different lengths).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.fast import accelerated_by
from model.fast.rotation import fast_rotate

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

    A score then depends on the distance of query and key alone. Which entries make a pair is a matter of naming: half a
    head apart they are whole runs of memory. The forward pass returns the rotation, which all layers share; `rotate`
    applies it.
    """

    def compute(self, length: int) -> Tensor:
        """Cosines and sines, [T, 2, D/2]."""
        angles = _angles(length, self.width)  # [T, D/2]
        return torch.stack((angles.cos(), angles.sin()), dim=1)

    def forward(self, start: Start, length: int) -> Tensor:
        """The rotation [T, 2, 1, D/2] (or [B, T, 2, 1, D/2]) float32: cosines and sines for all heads; any length."""
        return self.rows(start, length).unsqueeze(-2)


@accelerated_by(fast_rotate)
def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate x [B, T, H, D] by a rotation from `RotaryPositions`; computed in x's dtype."""
    cos, sin = rotation.to(x.dtype).unbind(-3)  # [T, 1, D/2] or [B, T, 1, D/2]
    first, second = x.chunk(2, dim=-1)  # [B, T, H, D/2]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _positions(start: Tensor, length: int) -> Tensor:
    return start.unsqueeze(1) + torch.arange(length, device=start.device)  # [B, T]


def _angles(length: int, width: int) -> Tensor:
    """Angle of each position and frequency, [T, width/2] float32.

    Computed in float64, because float32 loses the phase of far positions; on the CPU, as not every device has it.
    """
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), frequencies).float()
