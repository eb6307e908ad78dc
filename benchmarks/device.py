"""Choose the device of all contenders, wait for it, and time single operations on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import torch

_LEAST, _MOST = 5, 200
"""Minimum and maximum number of timed calls."""


def device() -> torch.device:
    """Return the GPU if there is one, else the CPU, as the project does by default."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize() -> None:
    """Wait until the GPU, if any, has finished its queued work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def median_seconds(call: Callable[[], object], seconds: float = 0.06) -> float:
    """Return the median time of a call in seconds, over about `seconds` after a warm-up of a tenth of that."""
    call()  # selects kernels and builds plans
    synchronize()
    one = max(mean_seconds(call, 1), 1e-6)
    for _ in range(min(_MOST, int(0.1 * seconds / one))):
        call()
    count = max(_LEAST, min(_MOST, int(seconds / one)))
    return median(_on_gpu(call, count) if torch.cuda.is_available() else [mean_seconds(call, 1) for _ in range(count)])


def mean_seconds(call: Callable[[], object], count: int) -> float:
    """Return the mean time of `count` consecutive calls, in seconds."""
    started = time.perf_counter()
    for _ in range(count):
        call()
    synchronize()
    return (time.perf_counter() - started) / count


def _on_gpu(call: Callable[[], object], count: int) -> list[float]:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(events)]
