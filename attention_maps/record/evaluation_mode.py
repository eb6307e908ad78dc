"""Evaluation mode that restores the training mode of every module and the random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Run the block in evaluation mode without gradients, then restore the random state and the mode of each module:
    frozen modules may already have been in evaluation mode."""
    device, training = next(model.parameters()).device, [module for module in model.modules() if module.training]
    accelerators = [] if device.type == "cpu" else [device]
    kept_random = torch.random.fork_rng(accelerators, device_type="cuda" if device.type == "cpu" else device.type)
    with kept_random, torch.no_grad():
        if training:
            model.eval()
        try:
            yield
        finally:
            for module in training:
                module.training = True
