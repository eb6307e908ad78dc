"""Activations that are computed twice instead of kept: memory for time (Chen et al. 2016)."""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint

from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def recompute_activations(model: GPT | EncoderDecoder) -> None:
    """Let every block of `model` keep its input alone for the backward pass, which begins by running the block once more.

    Dropout drops the same again. Without gradients nothing is kept and nothing changes.
    """
    blocks = model.blocks if isinstance(model, GPT) else [*model.encoder, *model.decoder]
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
