"""Fewer CPU threads for small computations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 1e9
"""Multiplications below which one thread is as fast as two: operations are so short that threads mostly wait for each
other. If other programs use the cores, they wait for much longer: a recording of demo_gpt takes 30 ms of CPU time with
one thread, and took 1 s with two on two busy cores."""


@contextmanager
def threads_for(multiplications: float, device: torch.device) -> Iterator[None]:
    """Use one thread inside the context if a computation on the CPU is small. Training, whose losses depend on its
    number of threads, has that number again afterwards."""
    before = torch.get_num_threads()
    if device.type != "cpu" or multiplications >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
