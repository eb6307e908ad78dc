"""Chunk sizes of large computations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LOGITS, _GPU_LOGITS, _TOKENS = 1 << 23, 1 << 28, 1024
"""Logits in memory at a time: 16 MB in bfloat16 on a CPU; half a gigabyte on a GPU, which needs larger products (plus
float32 temporaries of twice that if uncompiled). At least 1,024 tokens, since each chunk updates the gradient of the
whole projection."""

_SQUARES = 1 << 18
"""Gradient entries whose squares a CPU sums at a time."""


def loss_chunk(device: torch.device, vocabulary: int) -> int:
    """Return the number of tokens whose logits are in memory at a time, a power of two."""
    logits = _LOGITS if device.type == "cpu" else _GPU_LOGITS
    return max(_TOKENS, 1 << (logits // vocabulary).bit_length() - 1)


def norm_chunks(gradient: Tensor) -> Sequence[Tensor]:
    """Split a flat gradient into parts whose norms are combined into the total norm.

    A CPU sums squares in float32, and a single sum of 100 million of them is more than 1 % too small. A GPU already
    sums in many parts.
    """
    return gradient.split(_SQUARES) if gradient.device.type == "cpu" else [gradient]
