"""What a CPU does with the queue that a GPU needs: nothing."""

import torch

from training.device_queue import DeviceQueue, Readback


def test_figures_come_back_as_they_are() -> None:
    """Guards: a loss in the log that is rounded on its way."""
    numbers = [torch.rand(()) for _ in range(3)]
    assert Readback(numbers).read() == [float(number) for number in numbers]


def test_on_a_cpu_nothing_queues() -> None:
    """Guards: CUDA events on a machine without CUDA."""
    queue = DeviceQueue(torch.device("cpu"))
    for _ in range(5):
        queue.end_step()
    assert not queue.ends
    queue.drain()
