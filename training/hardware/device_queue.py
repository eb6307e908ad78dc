"""Read the results of training steps without making the device wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from generation.cuda.host_copy import HostCopy

UNFINISHED = 2
"""Steps that a GPU may still have to finish when the next one is queued."""

_UNREAD = 10
"""Steps after which the results are read of a device that cannot be asked whether it has finished."""


class DeviceQueue:
    """Steps that the device has not finished yet; none on a CPU. A GPU runs at most two steps behind: enough that it
    never waits for a batch, and few enough that wall-clock time reflects training time."""

    def __init__(self, device: torch.device, *, immediate: bool = False) -> None:
        """immediate: wait for every result."""
        self.device = device
        self.asynchronous = device.type == "cuda"
        self.immediate = immediate or device.type == "cpu"
        self.unread: deque[tuple[int, HostCopy, Callable[..., None]]] = deque()
        """Step, results and what is to be done with them."""
        self.ends: deque[torch.cuda.Event] = deque()
        """End events of the steps that a GPU may not have finished."""
        self.step = 0

    def read(self, results: Tensor, then: Callable[..., None]) -> None:
        """Call `then` with the numbers of a one-dimensional tensor: at once if that costs nothing, else at the end of a
        later step, or by `drain`; always in order."""
        if self.immediate:
            then(*results.tolist())
        else:
            self.unread.append((self.step, HostCopy(results), then))

    def end_step(self) -> None:
        """Mark the end of a step; wait until all but the last two steps are complete, and read their results."""
        self.step += 1
        if self.device.type == "cuda":
            end = torch.cuda.Event(blocking=True)  # waiting for it uses no CPU time
            end.record()
            self.ends.append(end)
            if len(self.ends) > UNFINISHED:
                self.ends.popleft().synchronize()
        delay = UNFINISHED if self.asynchronous else _UNREAD
        if self.unread and self.unread[0][0] < self.step - delay:
            self._read_before(self.step - UNFINISHED if self.asynchronous else self.step)

    def drain(self) -> None:
        """Wait until all steps are complete, and read all results."""
        while self.ends:
            self.ends.popleft().synchronize()
        self._read_before(self.step + 1)

    def _read_before(self, step: int) -> None:
        while self.unread and self.unread[0][0] < step:
            _, results, then = self.unread.popleft()
            then(*results.values())
