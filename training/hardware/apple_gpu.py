"""Apple's GPUs: what torch computes wrongly on them without an error, and so is refused here. Collected from its
issues, not tried."""

from __future__ import annotations

import torch

from configs.errors import UserError
from training.config import TrainConfig

TORCH, MACOS = (2, 13), (15, 0)
"""Oldest versions used. Before 2.13 attention is wrong for heads that are not contiguous and for masks shared by heads
(github.com/pytorch/pytorch/issues/181133, pull/184180); before macOS 15 a product is not written into a part of a
tensor (pull/193385)."""

LONGEST_SUM = 32_766
"""Terms that a matrix product may add up: with more, an M1 or M2 reads past the end
(github.com/pytorch/pytorch/issues/195163)."""


def obstacle() -> str | None:
    """Why an Apple GPU cannot be used here, or None."""
    if not torch.backends.mps.is_available():
        return "torch sees no Apple GPU here"
    if tuple(map(int, torch.__version__.split(".")[:2])) < TORCH:
        return (
            f"torch {torch.__version__} computes attention wrongly on Apple's GPUs, {TORCH[0]}.{TORCH[1]} or later is"
            " needed"
        )
    if not torch.backends.mps.is_macos_or_newer(*MACOS):
        return f"macOS {MACOS[0]} or later is needed for Apple's GPU"
    return None


def check_apple_gpu(config: TrainConfig, device: torch.device, vocabulary: int) -> None:
    """Raise UserError where an Apple GPU would compute a gradient wrongly.

    It adds up the tokens of a micro-batch, and words: too many of either. Activations that are computed twice get
    dropout twice: torch's checkpoint repeats the random numbers of devices that need to be initialised, which an Apple
    GPU does not.
    """
    if device.type != "mps":
        return
    if config.trainer.recompute and max(config.model.dropout, config.model.attention_dropout) > 0:
        raise UserError(
            "trainer.recompute=true: torch does not repeat dropout on Apple's GPUs; leave it out, or set"
            " model.dropout=0 and model.attention_dropout=0"
        )
    tokens, key = config.trainer.batch_size * config.model.context, "trainer.batch_size"
    if config.task == "translate":
        tokens, key = config.data.batch_tokens, "data.batch_tokens"
    if tokens > LONGEST_SUM:
        raise UserError(
            f"{key}: micro-batches of {tokens} tokens; Apple's GPUs compute gradients of more than {LONGEST_SUM}"
            f" wrongly: lower {key} and raise trainer.accumulate, or take trainer.device=cpu"
        )
    if vocabulary > LONGEST_SUM:
        raise UserError(
            f"tokenizer.vocab_size: a vocabulary of {vocabulary}; Apple's GPUs compute gradients of more than"
            f" {LONGEST_SUM} words wrongly: lower it, or take trainer.device=cpu"
        )
