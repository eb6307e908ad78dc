"""Save the checkpoints of several processes: the main one decides and writes, the others contribute their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor

from training.checkpoints.saver import CheckpointSaver, Contents
from training.counters import Progress
from training.processes.single_process import Processes

T = TypeVar("T")


class SharedSaver(CheckpointSaver):
    """The saver of one of several processes. `save`, `record` and `retry_is_due` are collective.

    Collecting the contents of a checkpoint may need all processes. The main process asks for it whenever it writes one;
    until it announces the result of a method, the others contribute.
    """

    def __init__(self, contents: Contents, progress: Progress, keep: int, processes: Processes) -> None:
        super().__init__(self._collected, progress, keep)
        self.own_contents, self.processes = contents, processes
        self.deciding = False
        """Whether the others already wait for what the main process asks."""

    def save(self) -> None:
        """As in CheckpointSaver."""
        self._decided(super().save)

    def save_weights(self, weights: dict[str, Tensor]) -> None:
        """As in CheckpointSaver; the caller has collected the weights, which only the main process writes."""
        if self.processes.is_main:
            super().save_weights(weights)

    def record(self, best: bool) -> bool:
        """As in CheckpointSaver."""
        return self._decided(lambda: super(SharedSaver, self).record(best))

    def retry_is_due(self) -> bool:
        """As in CheckpointSaver."""
        due = super().retry_is_due() if self.processes.is_main else False
        return self.processes.max_over_processes(due) == [1]

    def _collected(self) -> tuple:
        self.processes.broadcast(lambda: None)  # the result is not there yet
        return self.own_contents()

    def _decided(self, work: Callable[[], T]) -> T:
        """Return the result of `work` in the main process; the others contribute contents until it is there."""
        if self.deciding:
            return work()
        decision: tuple[T, int | None, str | None] | None = None
        if self.processes.is_main:
            self.deciding = True
            result = work()
            self.deciding = False
            decision = result, self.saved_step, self.failure
        while (answer := self.processes.broadcast(lambda: decision)) is None:
            self.own_contents()
        result, self.saved_step, self.failure = answer
        return result


def saver_for(processes: Processes, contents: Contents, progress: Progress, keep: int) -> CheckpointSaver:
    """Return the saver of this process."""
    if processes.world == 1:
        return CheckpointSaver(contents, progress, keep)
    return SharedSaver(contents, progress, keep, processes)
