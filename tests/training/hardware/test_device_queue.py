"""The queue limit has no effect on a CPU."""

import torch

from training.hardware.device_queue import DeviceQueue


def test_on_a_cpu_nothing_queues() -> None:
    """Guards against CUDA events on a machine without CUDA."""
    queue = DeviceQueue(torch.device("cpu"))
    for _ in range(5):
        queue.end_step()
    assert not queue.ends
    queue.drain()
