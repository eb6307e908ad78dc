"""Device-dependent choices: rows per chunk of logits, the format of sums, and how to subtract at an index."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LOGITS, _GPU_LOGITS, _TOKENS = 1 << 23, 1 << 28, 1024
"""Logits in memory at a time: 16 MB in bfloat16 on a CPU, half a gigabyte on a GPU, which needs larger products (plus
twice as much in float32 if uncompiled). At least 1,024 tokens, since each chunk updates the whole weight gradient."""


def loss_chunk(device: torch.device, vocabulary: int) -> int:
    """Return the number of tokens whose logits are in memory at a time, a power of two."""
    logits = _LOGITS if device.type == "cpu" else _GPU_LOGITS
    return max(_TOKENS, 1 << (logits // vocabulary).bit_length() - 1)


def norm_chunks(gradient: Tensor) -> Sequence[Tensor]:
    """Split a flat gradient into parts whose norms are combined into the total norm.

    A CPU sums squares in float32: one sum of 100 million of them is more than 1 % too small. A GPU sums in many parts.
    """
    return gradient.split(1 << 18) if gradient.device.type == "cpu" else [gradient]


def widest(device: torch.device) -> torch.dtype:
    """Return the format for sums of many numbers: float64, where the device has it (Apple GPUs do not)."""
    return torch.float64 if device.type in ("cpu", "cuda") else torch.float32


def subtract_at(matrix: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """Subtract values [N, 1] from matrix [N, V] at columns [N, 1], in place if eager -> the result."""
    if torch.compiler.is_compiling():  # unlike a scatter, a comparison is fused: a third of the time
        every = torch.arange(matrix.shape[1], dtype=torch.int32, device=matrix.device)
        return matrix - torch.where(every == columns.int(), values, 0.0)
    return matrix.scatter_add_(1, columns, -values)


def has_fused_adamw(device: torch.device) -> bool:
    """Whether torch's AdamW updates parameters on this device in a single pass."""
    return device.type in ("cpu", "cuda")
