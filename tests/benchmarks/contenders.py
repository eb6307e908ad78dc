"""Trivial contenders: real work, so small that a test can wait for it."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.contender import Skipped, Step


def counting(log: str, name: str, units: int = 1) -> Step:
    """Notes each of its steps, with its time, in a file that all contenders share."""

    def step() -> int:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{name} {time.monotonic()}\n")
        time.sleep(0.005)
        return units

    return step


def missing() -> Step:
    """A peer that is not installed."""
    import a_package_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401

    raise AssertionError


def unwilling() -> Step:
    """A peer whose checkout was not given."""
    raise Skipped("no checkout was given")


def broken() -> Step:
    """Fails at its third step."""
    left = [1, 1]

    def step() -> int:
        return left.pop()

    return step


def killed() -> Step:
    """Dies without a word to the harness."""
    import os

    def step() -> int:
        os.write(2, b"something about memory\n")
        os._exit(9)

    return step


def holding(megabytes: int) -> Step:
    """Holds so much memory while a step lasts."""

    def step() -> int:
        return len(bytearray(b"x") * (megabytes << 20)) >> 20

    return step


def crowded(mark: str) -> Step:
    """Cannot be set up the first time, as one whose memory another one holds."""
    if not Path(mark).exists():
        Path(mark).touch()
        raise RuntimeError("out of memory")
    return lambda: 1


def endless() -> Step:
    """Is never set up."""
    time.sleep(600)
    raise AssertionError


def held_to(instructions: str) -> Step:
    """Refuses to work where torch may use more than these instructions."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    if capability != instructions:
        raise Skipped(f"torch uses {capability}")
    return lambda: 1
