"""Choose the device of all contenders, wait for it, and time calls on it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def device() -> torch.device:
    """Return the GPU if there is one, else the CPU, as the project does by default."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize() -> None:
    """Wait until the GPU, if any, has finished its queued work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def mean_seconds(call: Callable[[], object], count: int) -> float:
    """Return the mean time of `count` consecutive calls, in seconds."""
    started = time.perf_counter()
    for _ in range(count):
        call()
    synchronize()
    return (time.perf_counter() - started) / count
