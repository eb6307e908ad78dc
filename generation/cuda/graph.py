"""A GPU that does not wait for Python: steps recorded once and replayed, results read while the next step runs.

A step that decodes one token is hundreds of kernels, most of them shorter than the call that launches them. A CUDA
graph launches all of them at once. It is recorded by running the step once more as it is, for each text or batch anew,
and gone with it; `torch.compile` would also fuse kernels, but first make code, which a text of a few hundred tokens
waits for.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""What attention may choose from on a GPU while decoding. Not cuDNN, which torch prefers on Hopper: it makes a plan for
each new shape before it runs, and every prompt and every batch of sentences has a shape of its own."""


class Replay:
    """Runs a step plainly, and on a GPU from the fourth time on by replaying its recording.

    A step takes and returns nothing and changes tensors in place, always the same ones: the recording knows addresses,
    not names. It may not wait for the device. One that comes in different shapes is recorded for each.
    """

    PLAIN = 3
    """Runs before a shape is recorded: libraries load kernels and choose between them in the first ones, which a
    recording forbids, and what is so short need not be recorded."""

    failed: ClassVar[torch.cuda.CUDAGraph | None] = None
    """A recording that was broken off: after it there are no others in this process, and torch still knows it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._runs: Counter[int] = Counter()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def __call__(self, step: Callable[[], None], shape: int) -> None:
        """Do the `step`, whose shapes follow from the number `shape`."""
        if shape not in self._graphs and self._runs[shape] >= self.PLAIN and self._can_record():
            self._record(step, shape)
        if shape in self._graphs:
            self._graphs[shape].replay()
        else:
            step()
        self._runs[shape] += 1

    def _can_record(self) -> bool:
        return self.device.type == "cuda" and Replay.failed is None

    def _record(self, step: Callable[[], None], shape: int) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # The outer context brings back the stream, which a recording that fails leaves behind. Other threads may go
            # on using the device: the one that fetches batches while training writes its samples.
            with torch.cuda.stream(stream), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                step()
        except RuntimeError as error:
            Replay.failed = graph
            reason = str(error).partition("\n")[0]
            warnings.warn(f"decoding goes on without CUDA graphs, slower ({reason})", stacklevel=3)
        else:
            self._graphs[shape] = graph


class Readback:
    """A tensor's values on their way to the CPU, while the device goes on."""

    def __init__(self, tensor: Tensor) -> None:
        """Copies the values that the tensor has after all that was asked of the device so far.

        Only a CUDA device can be told to copy them later: another would return memory that nothing has been written to.
        """
        self._copy = tensor.to("cpu", non_blocking=tensor.is_cuda, copy=True)
        self._done: torch.cuda.Event | None = None
        if tensor.is_cuda:
            self._done = torch.cuda.Event()
            self._done.record()

    def values(self) -> Any:
        """Wait for them; a number or nested lists."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy.tolist()
