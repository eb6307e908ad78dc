"""Evaluation mode that leaves no trace: modes of modules and random state are restored afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the random state, and each module's own mode, are as before: a
    frozen part may have been in evaluation mode already."""
    device, modes = next(model.parameters()).device, [(module, module.training) for module in model.modules()]
    accelerators = [] if device.type == "cpu" else [device]
    kept_random = torch.random.fork_rng(accelerators, device_type="cuda" if device.type == "cpu" else device.type)
    with kept_random, torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training
