"""Where a token stands: learned vectors, sinusoids, or rotations of queries and keys.

Every class takes `start`, the position of the first token: an int, or a tensor [B] when the rows of a batch stand at
different positions (cached decoding of prompts of different lengths).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

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
    """Rotates each pair (2i, 2i+1) of a head's query and key by p / 10000^(2i/D) (Su et al. 2021, equation 34).

    A score then depends on the distance of query and key alone. The forward pass returns the rotation, which all layers
    share; `rotate` applies it.
    """

    def compute(self, length: int) -> Tensor:
        """[T, D/2, 2]: cosine and sine."""
        angles = _angles(length, self.width)  # [T, D/2]
        return torch.stack((angles.cos(), angles.sin()), dim=-1)  # [T, D/2, 2]

    def forward(self, start: Start, length: int) -> Tensor:
        """The rotation [T, 1, D/2, 2] (or [B, T, 1, D/2, 2]) float32: cosine and sine for all heads; any length."""
        return self.rows(start, length).unsqueeze(-3)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn x [B, T, H, D] by a rotation from `RotaryPositions`; the result is float32 when x is, else x's dtype."""
    pairs = x.float().unflatten(-1, (-1, 2))  # [B, T, H, D/2, 2]
    if torch.compiler.is_compiling():  # the compiler fuses real arithmetic and leaves complex arithmetic alone
        (a, b), (cos, sin) = pairs.unbind(-1), rotation.unbind(-1)
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1)
    else:  # one complex product: 3.5 times as fast on a CPU as the four real ones
        turned = torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(rotation))
    return turned.flatten(-2).to(x.dtype)


def _positions(start: Tensor, length: int) -> Tensor:
    return start.unsqueeze(1) + torch.arange(length, device=start.device)  # [B, T]


def _angles(length: int, width: int) -> Tensor:
    """Angle of each position and frequency, [T, width/2] float32.

    Computed in float64, because float32 loses the phase of far positions; on the CPU, as not every device has it.
    """
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), frequencies).float()
