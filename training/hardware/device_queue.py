"""A GPU works through a queue that the CPU fills: how far ahead the CPU runs. (How figures come back:
`generation.cuda.host_copy.HostCopy`.)

On a CPU, where a call returns when its work is done, nothing here does anything.
"""

from __future__ import annotations

from collections import deque

import torch

_AHEAD = 2
"""Steps that may be queued: enough that the GPU never waits for the next batch, few enough that clocks stay honest."""


class DeviceQueue:
    """Lets the CPU be two steps ahead of a GPU and no more: time that passes here is time that training takes."""

    def __init__(self, device: torch.device) -> None:
        self.asynchronous = device.type == "cuda"
        self.ends: deque[torch.cuda.Event] = deque()
        """Of the steps that may be unfinished."""

    def end_step(self) -> None:
        """Mark the end of a step; wait until all but the last two have been done."""
        if self.asynchronous:
            self.ends.append(_event())
            if len(self.ends) > _AHEAD:
                self.ends.popleft().synchronize()

    def drain(self) -> None:
        """Wait until all steps have been done."""
        while self.ends:
            self.ends.popleft().synchronize()


def _event() -> torch.cuda.Event:
    """The present end of the queue; waiting for it takes no CPU time."""
    event = torch.cuda.Event(blocking=True)
    event.record()
    return event
