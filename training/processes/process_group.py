"""The workers of a torchrun launch: a process group of gloo on CPUs, and of NCCL for tensors on GPUs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from training.processes.failure import Ending
from training.processes.restarts import Launch
from training.processes.single_process import Processes

T = TypeVar("T")

CONTROL_TIMEOUT = timedelta(days=7)
"""How long a process waits for another's value: the first one may prepare data, evaluate or write for hours. A process
that dies is noticed at once, since its connections close."""


_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""The names of torch 2.13, or those of earlier versions, which it has deprecated."""


class Group(Processes):
    """The workers of one torchrun launch."""

    signal_pause = 3.0

    def __init__(self, rank: int, world: int, launch: Launch, ending: Ending) -> None:
        self.rank, self.world, self.launch, self.ending = rank, world, launch, ending
        self.local_rank = int(os.environ["LOCAL_RANK"])
        # Values on the CPU have a group of their own, whose patience does not delay the detection of a hanging GPU, and
        # reading them does not wait for a GPU's queue.
        self.control = dist.new_group(backend="gloo", timeout=CONTROL_TIMEOUT)

    @property
    def notes(self) -> list[str]:
        """As in Processes."""
        machines = int(os.environ["GROUP_WORLD_SIZE"])
        where = "" if machines == 1 else f" on {machines} machines"
        again = [f"torchrun has restarted the processes (restart {self.launch.attempt})"] if self.launch.attempt else []
        return [*again, f"{self.world} processes{where}"] if self.world > 1 else again

    def arguments(self, arguments: list[str]) -> list[str]:
        """As in Processes."""
        return self.launch.arguments(arguments)

    def remember_run(self, run: Path) -> None:
        """As in Processes."""
        if self.is_main:
            self.launch.remember(run=str(run.absolute()))

    def all_reduce(self, tensor: Tensor) -> None:
        """As in Processes."""
        with self.ending.connected():
            dist.all_reduce(tensor)

    def broadcast_tensor(self, tensor: Tensor) -> None:
        """As in Processes."""
        with self.ending.connected():
            dist.broadcast(tensor, src=0)

    def reduce_scatter(self, flat: Tensor) -> None:
        """As in Processes."""
        with self.ending.connected():
            _reduce_scatter(self._share(flat), flat)

    def all_gather(self, flat: Tensor) -> None:
        """As in Processes."""
        with self.ending.connected():
            _all_gather(flat, self._share(flat))

    def _share(self, flat: Tensor) -> Tensor:
        return flat.view(self.world, -1)[self.rank]

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        """As in Processes."""
        if not self.is_main:
            dist.send(tensor, dst=0)
            return []
        tensors = [tensor.cpu()]
        for rank in range(1, self.world):
            received = torch.empty_like(tensor)
            dist.recv(received, src=rank)
            tensors.append(received.cpu())
        return tensors

    def scatter_tensors(self, part_of: Callable[[int], Tensor], into: Tensor) -> None:
        """As in Processes."""
        if not self.is_main:
            if into.numel():
                dist.recv(into, src=0)
            return
        into.copy_(part_of(0))
        for rank in range(1, self.world):
            part = part_of(rank)
            if part.numel():
                dist.send(part.to(into.device, into.dtype).contiguous(), dst=rank)

    def all_to_all(self, sent: list[list[Tensor]], shapes: list[list[torch.Size]], like: Tensor) -> list[list[Tensor]]:
        """As in Processes."""
        flat = torch.cat([like.new_empty(0), *(part.reshape(-1) for parts in sent for part in parts)])
        sizes = [sum(part.numel() for part in parts) for parts in sent]
        expected = [[shape.numel() for shape in of_rank] for of_rank in shapes]
        received = like.new_empty(sum(map(sum, expected)))
        dist.all_to_all_single(received, flat, list(map(sum, expected)), sizes)
        parts = iter(received.split([size for of_rank in expected for size in of_rank]))
        return [[next(parts).view(shape) for shape in of_rank] for of_rank in shapes]

    def sum_over_processes(self, *numbers: float) -> list[float]:
        """As in Processes."""
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def max_over_processes(self, *numbers: float) -> list[float]:
        """As in Processes."""
        return self._reduced(numbers, dist.ReduceOp.MAX)

    def _reduced(self, numbers: tuple[float, ...], operation: dist.ReduceOp.RedOpType) -> list[float]:
        values = torch.tensor(numbers, dtype=torch.float64)
        with self.ending.connected():
            dist.all_reduce(values, operation, group=self.control)
        return values.tolist()

    def broadcast(self, work: Callable[[], T]) -> T:
        """As in Processes."""
        box = [work() if self.is_main else None]
        with self.ending.connected():
            dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]  # type: ignore[return-value]

    def gather(self, work: Callable[[], T]) -> list[T]:
        """As in Processes."""
        result: tuple[T | None, str | None]
        failure: Exception | None = None
        try:
            result = work(), None
        except Exception as error:
            failure = error
            result = None, f"{type(error).__name__}: {error}"
        results: list[tuple[T, str | None]] = [None] * self.world  # type: ignore[list-item]
        with self.ending.connected():
            dist.all_gather_object(results, result, group=self.control)
        if failure is not None:
            raise failure
        for rank, (_, message) in enumerate(results):
            if message is not None:
                raise RuntimeError(f"in process {rank}: {message}")
        return [value for value, _ in results]

    def barrier(self) -> None:
        """As in Processes."""
        with self.ending.connected():
            dist.barrier(group=self.control)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """As in Processes."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()


def only_errors() -> None:
    """Discard standard output, and draw no progress bars; errors are still printed."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _NotATerminal(sys.stderr.buffer, "utf-8", "backslashreplace", line_buffering=True)


class _NotATerminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return False


@contextmanager
def opened_group() -> Iterator[Group]:
    """Yield the group of this launch, and leave it at the end. If one process fails, all end, with one message."""
    launch = Launch(sys.argv[1:])
    if (code := launch.exit_code) is not None:
        if launch.attempt == launch.last_attempt:
            launch.forget()
        raise SystemExit(code)
    store, rank, world = next(rendezvous("env://"))
    # A restarted group must not find the addresses of its predecessor.
    store = dist.PrefixStore(f"attempt {launch.attempt}", store)
    if rank:
        only_errors()
    elif not launch.attempt:
        launch.forget()
    has_gpus = dist.is_nccl_available() and torch.cuda.is_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpus else "gloo", store=store, rank=rank, world_size=world)
    ending = Ending(store, launch)
    with ending.one_for_all():
        group = Group(rank, world, launch, ending)
        yield group
        group.barrier()  # torchrun stops the others as soon as one has failed
    if group.is_main:
        launch.forget()
    dist.destroy_process_group()
