"""Evaluation mode that leaves no trace: modes of modules and random state are restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients, and afterwards the modes and the random state of before."""
    device = next(model.parameters()).device
    accelerators = [] if device.type == "cpu" else [device]
    kept_random = torch.random.fork_rng(accelerators, device_type="cuda" if device.type == "cpu" else device.type)
    with kept_random, evaluating(model), torch.no_grad():
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each module's own mode again: a frozen part may have been in eval mode before."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
