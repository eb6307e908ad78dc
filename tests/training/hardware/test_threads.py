"""The number of threads of small computations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from training.hardware.threads import SMALL, threads_for


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Let torch use two threads, as training on two cores does."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def inside(tokens: int, device: str = "cpu") -> int:
    """Return the number of threads inside the context, for a model of a thousand weights."""
    with threads_for(nn.Linear(1000, 1, bias=False, device=device), tokens):
        return torch.get_num_threads()


def test_small_work_on_the_cpu_has_one_thread() -> None:
    """Guards against threads that wait for each other, and large models that record with half of the machine."""
    large = int(SMALL / 1000)
    assert inside(large - 1) == 1
    assert inside(large) == 2
    assert inside(large - 1, "meta") == 2


def test_training_has_its_threads_again() -> None:
    """Guards the speed and the bits of training after a recording, also one that failed."""
    inside(1)
    assert torch.get_num_threads() == 2
    with pytest.raises(RuntimeError), threads_for(nn.Linear(1, 1), 1):
        raise RuntimeError
    assert torch.get_num_threads() == 2
