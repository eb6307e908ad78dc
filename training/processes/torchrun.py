"""The workers of a torchrun launch: a process group of gloo on CPUs, and of NCCL for tensors on GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from training.processes.processes import Processes

T = TypeVar("T")

PATIENCE = timedelta(days=7)
"""How long a process waits for another's value: the first one may prepare data, evaluate or write for hours. A process
that dies is noticed at once, since its connections close."""


_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""The names of torch 2.13, or those of earlier versions, which it has deprecated."""


class Group(Processes):
    """The workers of one torchrun launch."""

    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.local_rank = int(os.environ["LOCAL_RANK"])
        # Values on the CPU have a group of their own, whose patience does not delay the detection of a hanging GPU, and
        # reading them does not wait for a GPU's queue.
        self.control = dist.new_group(backend="gloo", timeout=PATIENCE)

    def add_up(self, tensor: Tensor) -> None:
        """As in Processes."""
        dist.all_reduce(tensor)

    def copy_of_first(self, tensor: Tensor) -> None:
        """As in Processes."""
        dist.broadcast(tensor, src=0)

    def reduce_scatter(self, flat: Tensor) -> None:
        """As in Processes."""
        _reduce_scatter(self._share(flat), flat)

    def all_gather(self, flat: Tensor) -> None:
        """As in Processes."""
        _all_gather(flat, self._share(flat))

    def _share(self, flat: Tensor) -> Tensor:
        return flat.view(self.world, -1)[self.rank]

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        """As in Processes."""
        if not self.first:
            dist.send(tensor, dst=0)
            return []
        found = [tensor.cpu()]
        for rank in range(1, self.world):
            received = torch.empty_like(tensor)
            dist.recv(received, src=rank)
            found.append(received.cpu())
        return found

    def scatter_tensors(self, part_of: Callable[[int], Tensor], into: Tensor) -> None:
        """As in Processes."""
        if not self.first:
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
        expected = [[shape.numel() for shape in each] for each in shapes]
        received = like.new_empty(sum(map(sum, expected)))
        dist.all_to_all_single(received, flat, list(map(sum, expected)), sizes)
        parts = iter(received.split([size for each in expected for size in each]))
        return [[next(parts).view(shape) for shape in each] for each in shapes]

    def totals(self, *numbers: float) -> list[float]:
        """As in Processes."""
        return self._reduced(numbers, dist.ReduceOp.SUM)

    def largest(self, *numbers: float) -> list[float]:
        """As in Processes."""
        return self._reduced(numbers, dist.ReduceOp.MAX)

    def _reduced(self, numbers: tuple[float, ...], operation: dist.ReduceOp.RedOpType) -> list[float]:
        values = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(values, operation, group=self.control)
        return values.tolist()

    def of_first(self, value: T) -> T:
        """As in Processes."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def together(self, work: Callable[[], T]) -> list[T]:
        """As in Processes."""
        result: tuple[T | None, str | None]
        failure: Exception | None = None
        try:
            result = work(), None
        except Exception as error:
            failure = error
            result = None, f"{type(error).__name__}: {error}"
        results: list[tuple[T, str | None]] = [None] * self.world  # type: ignore[list-item]
        dist.all_gather_object(results, result, group=self.control)
        if failure is not None:
            raise failure
        for rank, (_, message) in enumerate(results):
            if message is not None:
                raise RuntimeError(f"in process {rank}: {message}")
        return [value for value, _ in results]

    def wait(self) -> None:
        """As in Processes."""
        dist.barrier(group=self.control)

    def first_then_others(self, work: Callable[[], T]) -> T:
        """As in Processes."""
        if self.first:
            done = work()
            self.wait()
        else:
            self.wait()
            done = work()
        return done


@contextmanager
def opened_group() -> Iterator[Group]:
    """Yield the group of this launch, and leave it at the end."""
    has_gpus = dist.is_nccl_available() and torch.cuda.is_available()
    dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpus else "gloo")
    try:
        yield Group()
    finally:
        dist.destroy_process_group()
