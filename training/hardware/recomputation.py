"""Activations that are computed twice instead of kept: memory for time (Chen et al. 2016)."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT


def recompute_activations(model: GPT | EncoderDecoder) -> None:
    """Let every block of `model` keep its input alone for the backward pass, which begins by running the block once
    more.

    Dropout drops the same again. Without gradients nothing is kept and nothing changes.
    """
    blocks = model.blocks if isinstance(model, GPT) else [*model.encoder, *model.decoder]
    for block in blocks:
        block.forward = MethodType(_twice, block)


def _twice(block: nn.Module, *inputs: Any) -> Tensor:
    """`block.forward` of its class. One function for all blocks, so that those of a kind are compiled once."""

    def forward(*inputs: Any) -> Tensor:
        return type(block).forward(block, *inputs)

    if (
        not torch.is_grad_enabled()
    ):  # the checkpoint would read the state of the random numbers, which a CUDA graph forbids
        return forward(*inputs)
    return checkpoint(forward, *inputs, use_reentrant=False)
