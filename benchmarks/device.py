"""The device that contenders compute on."""

from __future__ import annotations

import torch


def device() -> torch.device:
    """The GPU where there is one; the project chooses the same."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize() -> None:
    """Wait until a GPU has finished what was queued."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
