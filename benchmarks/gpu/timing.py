"""Times of single operations on the device that is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import torch

_LEAST, _MOST = 5, 200
"""Calls that are timed, at least and at most."""


def the_device() -> str:
    """`cuda` where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def wait() -> None:
    """Until what was queued on a GPU is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def median_seconds(call: Callable[[], object], seconds: float = 0.06) -> float:
    """Median time of a call, by events on a GPU, over about `seconds` after a tenth of that which is not counted."""
    call()  # chooses kernels, builds plans
    wait()
    started = time.perf_counter()
    call()
    wait()
    one = max(time.perf_counter() - started, 1e-6)
    for _ in range(min(_MOST, int(0.1 * seconds / one))):
        call()
    count = max(_LEAST, min(_MOST, int(seconds / one)))
    return median(_on_gpu(call, count) if torch.cuda.is_available() else _on_cpu(call, count))


def _on_gpu(call: Callable[[], object], count: int) -> list[float]:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(events)]


def _on_cpu(call: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times
