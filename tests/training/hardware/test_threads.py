"""The number of threads of small computations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from training.hardware.threads import SMALL, threads_for


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Let torch use two threads, as training on two cores does."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def inside(multiplications: float, device: str = "cpu") -> int:
    """Return the number of threads inside the context."""
    with threads_for(multiplications, torch.device(device)):
        return torch.get_num_threads()


def test_small_work_on_the_cpu_has_one_thread() -> None:
    """Guards against threads that wait for each other, and large models that record with half of the machine."""
    assert inside(SMALL / 2) == 1
    assert inside(SMALL) == 2
    assert inside(SMALL / 2, "meta") == 2


def test_training_has_its_threads_again() -> None:
    """Guards the speed and the bits of training after a recording, also one that failed."""
    inside(1)
    assert torch.get_num_threads() == 2
    with pytest.raises(RuntimeError), threads_for(1, torch.device("cpu")):
        raise RuntimeError
    assert torch.get_num_threads() == 2
