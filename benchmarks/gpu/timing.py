"""Times of single operations on the device that is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import torch

from benchmarks.device import synchronize

_LEAST, _MOST = 5, 200
"""Calls that are timed, at least and at most."""


def median_seconds(call: Callable[[], object], seconds: float = 0.06) -> float:
    """Median time of a call, by events on a GPU, over about `seconds` after an uncounted tenth of that."""
    call()  # chooses kernels, builds plans
    synchronize()
    one = max(mean_seconds(call, 1), 1e-6)
    for _ in range(min(_MOST, int(0.1 * seconds / one))):
        call()
    count = max(_LEAST, min(_MOST, int(seconds / one)))
    return median(_on_gpu(call, count) if torch.cuda.is_available() else [mean_seconds(call, 1) for _ in range(count)])


def mean_seconds(call: Callable[[], object], count: int) -> float:
    """Mean time of `count` calls that are queued one after the other."""
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
