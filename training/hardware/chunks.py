"""How much of a large computation is done at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LOGITS, _GPU_LOGITS, _TOKENS = 1 << 23, 1 << 28, 1024
"""Logits in memory at a time: on a CPU 16 MB in bfloat16, on a GPU, which needs larger products, half a gigabyte (and
float32 temporaries of twice that where nothing is compiled); or those of 1,024 tokens if they are more, since each
chunk passes over the gradient of the whole projection."""

_SQUARES = 1 << 18
"""Entries of the gradient whose squares a CPU sums at a time."""


def loss_chunk(device: torch.device, vocabulary: int) -> int:
    """Tokens whose logits are in memory at a time: a power of two."""
    logits = _LOGITS if device.type == "cpu" else _GPU_LOGITS
    return max(_TOKENS, 1 << (logits // vocabulary).bit_length() - 1)


def norm_chunks(gradient: Tensor) -> Sequence[Tensor]:
    """Parts of a flat gradient whose norms are combined into its norm.

    A CPU sums squares in float32, and one sum of 100 million of them is more than a hundredth too small. A GPU sums
    many parts by itself.
    """
    return gradient.split(_SQUARES) if gradient.device.type == "cpu" else [gradient]
