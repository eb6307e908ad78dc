"""Limit how far the CPU runs ahead of a GPU's queue. (Results are copied back by `generation.cuda.host_copy.HostCopy`.)

On a CPU, where calls are synchronous, this module has no effect.
"""

from __future__ import annotations

from collections import deque

import torch

_AHEAD = 2
"""Maximum queued steps: enough that the GPU never waits for a batch, few enough that step times are accurate."""


class DeviceQueue:
    """Lets the CPU run at most two steps ahead of a GPU, so that wall-clock time reflects training time."""

    def __init__(self, device: torch.device) -> None:
        self.asynchronous = device.type == "cuda"
        self.ends: deque[torch.cuda.Event] = deque()
        """End events of the steps that may be unfinished."""

    def end_step(self) -> None:
        """Mark the end of a step; wait until all but the last two steps are complete."""
        if self.asynchronous:
            self.ends.append(_event())
            if len(self.ends) > _AHEAD:
                self.ends.popleft().synchronize()

    def drain(self) -> None:
        """Wait until all steps are complete."""
        while self.ends:
            self.ends.popleft().synchronize()


def _event() -> torch.cuda.Event:
    """Record an event at the current end of the queue; waiting for it uses no CPU time."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event
