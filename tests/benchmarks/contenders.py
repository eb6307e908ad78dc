"""Trivial contenders whose steps take milliseconds."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from unittest.mock import Mock

from benchmarks.contender import Skipped, Step


def counting(log: str, name: str, units: int = 1) -> Step:
    """Return a step that appends its name and the time to a log shared by all contenders."""

    def step() -> int:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{name} {time.monotonic()}\n")
        time.sleep(0.005)
        return units

    return step


def missing() -> Step:
    """Fail to import a package, like a peer that is not installed."""
    import a_package_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401

    raise AssertionError


def unwilling() -> Step:
    """Raise Skipped, like a peer whose checkout was not given."""
    raise Skipped("no checkout was given")


def broken() -> Step:
    """Return a step that fails on its third call."""
    left = [1, 1]

    def step() -> int:
        return left.pop()

    return step


def killed() -> Step:
    """Return a step that ends the process without an answer to the harness."""
    import os

    def step() -> int:
        os.write(2, b"something about memory\n")
        os._exit(9)

    return step


def holding(megabytes: int) -> Step:
    """Return a step that temporarily allocates `megabytes` MiB."""

    def step() -> int:
        return len(bytearray(b"x") * (megabytes << 20)) >> 20

    return step


def queued() -> Step:
    """Return a step that a simulated GPU executes in 0.5 s, while the program goes on."""
    ready = [0.0]

    def step() -> int:
        ready[0] = max(ready[0], time.monotonic()) + 0.5
        return 1

    cuda = Mock(synchronize=lambda: time.sleep(max(0.0, ready[0] - time.monotonic())))
    cuda.max_memory_reserved.return_value = 0
    sys.modules["torch"] = Mock(cuda=cuda)
    return step


def hanging(after: int) -> Step:
    """Return a step that takes 0.1 s, but never ends after a number of calls."""
    calls = itertools.count(1)

    def step() -> int:
        time.sleep(600 if next(calls) > after else 0.1)
        return 1

    return step


def endless() -> Step:
    """Never finish the set-up."""
    time.sleep(600)
    raise AssertionError


def held_to(instructions: str) -> Step:
    """Raise Skipped unless torch is restricted to the given instruction set."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    if capability != instructions:
        raise Skipped(f"torch uses {capability}")
    return lambda: 1
