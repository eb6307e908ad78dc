"""Choose and synchronise the device of all contenders."""

from __future__ import annotations

import torch


def device() -> torch.device:
    """Return the GPU if there is one, else the CPU, as the project does by default."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize() -> None:
    """Wait until the GPU, if any, has finished its queued work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
