"""Process group of a run. This class is the single-process case: every collective operation does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # invalid command lines are rejected without importing torch
    import torch
    from torch import Tensor

T = TypeVar("T")


class Processes:
    """One process, alone. `torchrun.Group` has several.

    Every method is collective: all processes call the same methods in the same order. Tensors on a GPU are exchanged by
    NCCL and only queued; all other methods exchange values on the CPU and wait for the slowest process.
    """

    rank = 0
    """Number of this process among all, from 0."""
    world = 1
    """Number of processes on all machines."""
    local_rank: int | None = None
    """Number of this process on its machine, which is the number of its GPU; None if torchrun has not started it."""

    signal_pause = 0.0
    """Seconds after a signal in which another one is taken for the same request."""

    @property
    def notes(self) -> list[str]:
        """Lines for the log."""
        return []

    @property
    def is_main(self) -> bool:
        """Whether this process writes: to the terminal, the run folder and the cache."""
        return self.rank == 0

    def arguments(self, arguments: list[str]) -> list[str]:
        """Return the command line's arguments; after a restart by torchrun, those that continue its run."""
        return arguments

    def remember_run(self, run: Path) -> None:
        """Remember the run folder of this launch for a restart by torchrun."""

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor of the run's device by its sum over all processes, which is equal to the last bit in all."""

    def broadcast_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor of the run's device by that of the first process."""

    def reduce_scatter(self, flat: Tensor) -> None:
        """Sum a flat tensor of the run's device over all processes, each process only its share: the `rank`-th of
        `world` equal parts. Afterwards the rest is undefined."""

    def all_gather(self, flat: Tensor) -> None:
        """Fill a flat tensor of the run's device, of which each process has its share, with the shares of all."""

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        """Return, in the first process, the tensors of all processes by rank, on the CPU; elsewhere nothing. All have
        the same shape. No process holds more than two on its device."""
        return [tensor.cpu()]

    def scatter_tensors(self, part_of: Callable[[int], Tensor], into: Tensor) -> None:
        """Fill `into`, a tensor of the run's device, in each process with `part_of(rank)`, which only the first process
        computes."""
        into.copy_(part_of(0))

    def all_to_all(self, sent: list[list[Tensor]], shapes: list[list[torch.Size]], like: Tensor) -> list[list[Tensor]]:
        """Send the tensors `sent[rank]` to each process -> the tensors received from each, which have `shapes[rank]`.
        All have the dtype and the device of `like`."""
        return sent

    def sum_over_processes(self, *numbers: float) -> list[float]:
        """Return the sum of each number over all processes; integers are exact up to 2**53."""
        return list(numbers)

    def max_over_processes(self, *numbers: float) -> list[float]:
        """Return the maximum of each number over all processes."""
        return list(numbers)

    def broadcast(self, work: Callable[[], T]) -> T:
        """Run `work` in the first process only and return its result, a plain object, in all: one decision for all."""
        return work()

    def gather(self, work: Callable[[], T]) -> list[T]:
        """Run `work` in each process and return all results by rank. An exception in one is raised in all, so that they
        stay in step."""
        return [work()]

    def barrier(self) -> None:
        """Wait until all processes arrive."""

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Run the block in the first process, then in all others, which find what it has left in the cache."""
        yield


SINGLE = Processes()
"""The only process of a run."""
