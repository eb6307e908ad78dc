"""Limit how far the CPU runs ahead of a GPU's queue; without effect on a CPU, where calls are synchronous."""

from __future__ import annotations

from collections import deque

import torch

UNFINISHED = 2
"""Steps that a GPU may still have to finish when the next one is queued."""


class DeviceQueue:
    """Lets the CPU run at most two steps ahead of a GPU: enough that the GPU never waits for a batch, and few enough
    that wall-clock time reflects training time."""

    def __init__(self, device: torch.device) -> None:
        self.asynchronous = device.type == "cuda"
        self.immediate = device.type == "cpu"
        """Whether results can be read at no cost as soon as they are computed."""
        self.ends: deque[torch.cuda.Event] = deque()
        """End events of the steps that may be unfinished."""

    def end_step(self) -> None:
        """Mark the end of a step; wait until all but the last two steps are complete."""
        if self.asynchronous:
            end = torch.cuda.Event(blocking=True)  # waiting for it uses no CPU time
            end.record()
            self.ends.append(end)
            if len(self.ends) > UNFINISHED:
                self.ends.popleft().synchronize()

    def drain(self) -> None:
        """Wait until all steps are complete."""
        while self.ends:
            self.ends.popleft().synchronize()
