"""Activation checkpointing: recompute activations in the backward pass instead of storing them (Chen et al. 2016)."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from model.blocks import blocks_of
from training.run_folder.loaded_run import Model


def recompute_activations(model: Model) -> None:
    """Make every block of `model` store only its input and rerun its forward pass during the backward pass.

    The rerun repeats the same dropout. Without gradients nothing is stored and nothing changes.
    """
    for block in blocks_of(model):
        block.forward = MethodType(_checkpointed, block)


def _checkpointed(block: nn.Module, *inputs: Any) -> Tensor:
    """Run `forward` of a block. One function for all blocks, so that each kind of block is compiled once."""

    def forward(*inputs: Any) -> Tensor:
        return type(block).forward(block, *inputs)

    if not torch.is_grad_enabled():  # checkpoint reads the random state, which a CUDA graph forbids
        return forward(*inputs)
    return checkpoint(forward, *inputs, use_reentrant=False)
