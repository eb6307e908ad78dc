"""Encode token positions: learned vectors, sinusoids, or rotations of queries and keys.

Every class has an argument `start`, the position of the first token: an int, or a tensor [B] if the rows of a batch are
at different positions (cached decoding of prompts of different lengths).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.fast import accelerated_by
from model.fast.rotation import fast_rotate

Start = int | Tensor


class LearnedPositions(nn.Module):
    """One trained vector for each of `context` positions."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.empty(context, width))

    def forward(self, start: Start, length: int) -> Tensor:
        """Return vectors [T, C] for an int start, [B, T, C] for a tensor. Raises ValueError beyond the context."""
        if isinstance(start, Tensor):
            return self.weight[_positions(start, length)]
        if start + length > self.context:
            raise ValueError(
                f"{start + length} tokens are longer than model.context={self.context}; model.position=learned has no "
                "vectors for the rest: shorten the text, or train with a longer context or with rotary positions"
            )
        return self.weight[start : start + length]


class _PositionTable(nn.Module, ABC):
    """A table computed from positions, stored for the first `context` positions and computed on demand beyond them.

    The table stays float32 when the module is converted to another dtype (a round trip through bfloat16 would change it
    from what a freshly loaded model computes), and is not in the state dict: it follows from the configuration.
    """

    table: Tensor

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.context = context
        self.register_buffer("table", self.compute(context), persistent=False)

    @abstractmethod
    def compute(self, length: int) -> Tensor:
        """Compute the first `length` rows, float32 on the CPU."""

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
        """Compute sines and cosines, interleaved: [T, C] float32."""
        angles = _angles(length, self.width)  # [T, C/2]
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # [T, C]

    def forward(self, start: Start, length: int) -> Tensor:
        """Return vectors [T, C] (or [B, T, C]) float32; any length."""
        return self.rows(start, length)


class RotaryPositions(_PositionTable):
    """Rotate each pair (i, i + D/2) of a head's query and key by p / base^(2i/R) (Su et al. 2021, equation 34, where R
    = D and base = 10000).

    Attention scores then depend only on the distance between query and key. The choice of pairs is a convention: half a
    head apart, each half is contiguous in memory. Only the first R/2 pairs turn (`config.rotary_width`), the angle of
    the others is 0. The forward pass returns the rotation, which all layers share; `rotate` applies it.
    """

    def __init__(self, context: int, width: int, rotary_width: int | None = None, base: float = 10_000.0) -> None:
        """width: D; rotary_width: R, D if None."""
        self.rotary_width, self.base = width if rotary_width is None else rotary_width, base
        super().__init__(context, width)

    def compute(self, length: int) -> Tensor:
        """Compute cosines and sines, [T, 2, D/2]."""
        turning = _angles(length, self.rotary_width, self.base)  # [T, R/2]
        angles = F.pad(turning, (0, (self.width - self.rotary_width) // 2))  # [T, D/2]
        return torch.stack((angles.cos(), angles.sin()), dim=1)

    def forward(self, start: Start, length: int) -> Tensor:
        """Return the rotation [T, 2, 1, D/2] (or [B, T, 2, 1, D/2]) float32: cosines and sines, shared by all heads."""
        return self.rows(start, length).unsqueeze(-2)


@accelerated_by(fast_rotate)
def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate x [B, T, H, D] by a rotation from `RotaryPositions`; computed in the dtype of x."""
    cos, sin = rotation.to(x.dtype).unbind(-3)  # [T, 1, D/2] or [B, T, 1, D/2]
    first, second = x.chunk(2, dim=-1)  # [B, T, H, D/2]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _positions(start: Tensor, length: int) -> Tensor:
    return start.unsqueeze(1) + torch.arange(length, device=start.device)  # [B, T]


def _angles(length: int, width: int, base: float = 10_000.0) -> Tensor:
    """Return the angle of each position and frequency, [T, width/2] float32.

    Computed in float64, because float32 loses the phase of distant positions; on the CPU, as not every device has it.
    """
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), frequencies).float()
