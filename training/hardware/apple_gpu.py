"""Reject operations that torch silently computes incorrectly on Apple GPUs. Collected from torch's issues, untested."""

from __future__ import annotations

import torch

from configs.errors import UserError
from training.config import TrainConfig

TORCH, MACOS = (2, 13), (15, 0)
"""Minimum versions. Before 2.13 attention is wrong for non-contiguous heads and for masks shared by heads (pytorch
issue 181133, pull request 184180); before macOS 15 a product is not written into a slice of a tensor (193385)."""

LONGEST_SUM = 32_766
"""Maximum inner dimension of a matrix product: beyond it an M1 or M2 reads out of bounds (pytorch issue 195163)."""


def obstacle() -> str | None:
    """Return why an Apple GPU cannot be used, or None."""
    if not torch.backends.mps.is_available():
        return "torch found no Apple GPU"
    if tuple(map(int, torch.__version__.split(".")[:2])) < TORCH:
        needed = f"{TORCH[0]}.{TORCH[1]} or later is required"
        return f"torch {torch.__version__} computes attention incorrectly on Apple GPUs; {needed}"
    if not torch.backends.mps.is_macos_or_newer(*MACOS):
        return f"macOS {MACOS[0]} or later is required for Apple GPUs"
    return None


def check_apple_gpu(config: TrainConfig, device: torch.device, vocabulary: int) -> None:
    """Raise UserError if an Apple GPU would compute a gradient incorrectly.

    Gradients sum over the tokens of a micro-batch and over the vocabulary; either sum may be too long. Activation
    checkpointing would apply different dropout: torch does not restore the random state of an Apple GPU for it.
    """
    if device.type != "mps":
        return
    if config.trainer.recompute and max(config.model.dropout, config.model.attention_dropout) > 0:
        raise UserError(
            "trainer.recompute=true: torch does not repeat dropout on Apple GPUs; remove it, or set"
            " model.dropout=0 and model.attention_dropout=0"
        )
    tokens, key = config.trainer.batch_size * config.model.context, "trainer.batch_size"
    if config.task == "translate":
        tokens, key = config.data.batch_tokens, "data.batch_tokens"
    if tokens > LONGEST_SUM:
        raise UserError(
            f"{key}: micro-batches of {tokens} tokens; Apple GPUs compute gradients of more than {LONGEST_SUM}"
            f" incorrectly: lower {key} and raise trainer.accumulate, or use trainer.device=cpu"
        )
    if vocabulary > LONGEST_SUM:
        raise UserError(
            f"tokenizer.vocab_size: a vocabulary of {vocabulary}; Apple GPUs compute gradients of more than"
            f" {LONGEST_SUM} tokens incorrectly: lower it, or use trainer.device=cpu"
        )
