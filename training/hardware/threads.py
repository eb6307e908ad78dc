"""Fewer CPU threads for small computations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

SMALL = 1e9
"""Multiplications below which one thread is as fast as two: operations are so short that threads mostly wait for each
other. If other programs use the cores, they wait for much longer: a recording of demo_gpt takes 30 ms of CPU time with
one thread, and took 1 s with two on two busy cores."""


@contextmanager
def threads_for(model: nn.Module, tokens: int) -> Iterator[None]:
    """Use one thread inside the context if reading so many tokens on the CPU is a small computation. Training, whose
    losses depend on its number of threads, has that number again afterwards."""
    before = torch.get_num_threads()
    parameters = list(model.parameters())
    multiplications = tokens * sum(parameter.numel() for parameter in parameters)
    if parameters[0].device.type != "cpu" or multiplications >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
