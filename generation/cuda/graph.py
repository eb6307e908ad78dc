"""Capture a decoding step as a CUDA graph, and replay it with a single launch.

A step that decodes one token runs hundreds of kernels, most of which take less time than their launch. Each batch has
its own graph, whose capture takes as long as one step. `torch.compile` would also fuse kernels, but takes longer to
generate code than the model takes to generate a few hundred tokens.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import torch
from torch.nn.attention import SDPBackend

ATTENTION_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Attention kernels for decoding. Not cuDNN, which torch prefers on Hopper: it builds a plan for each new shape, and
almost every prompt and batch of sentences has a new shape."""


def has_graphs(device: torch.device) -> bool:
    """Whether CUDA graphs can be captured on this device."""
    return device.type == "cuda"


class GraphRunner:
    """Runs a step eagerly the first three times, then captures it as a CUDA graph and replays the graph.

    A step has no arguments, returns nothing and updates tensors in place, because a graph stores fixed addresses. It
    must not wait for the device. A step with several shapes has one graph per shape. Without a GPU every run is eager.
    """

    WARM_UP = 3
    """Eager runs per shape: in the first runs libraries load and select kernels, which a capture does not allow."""

    failed: ClassVar[torch.cuda.CUDAGraph | None] = None
    """A failed capture, after which this process captures nothing. Kept alive because torch still refers to it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._runs: Counter[int] = Counter()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def __call__(self, step: Callable[[], None], shape: int) -> None:
        """Run `step`, whose tensor shapes are all determined by the number `shape`."""
        if shape not in self._graphs and self._runs[shape] >= self.WARM_UP:
            self._capture(step, shape)
        if shape in self._graphs:
            self._graphs[shape].replay()
        else:
            step()
        self._runs[shape] += 1

    def _capture(self, step: Callable[[], None], shape: int) -> None:
        if not has_graphs(self.device) or GraphRunner.failed is not None:
            return
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # The outer context restores the stream, which a failed capture does not. Other threads may use the device
            # meanwhile: one fetches batches while the training run generates samples.
            with torch.cuda.stream(stream), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                step()
        except RuntimeError as error:
            GraphRunner.failed = graph
            reason = str(error).partition("\n")[0]
            warnings.warn(f"decoding continues without CUDA graphs, slower ({reason})", stacklevel=3)
        else:
            self._graphs[shape] = graph
