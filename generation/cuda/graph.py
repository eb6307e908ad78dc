"""CUDA graphs of a decoding step: captured once, then replayed with a single launch.

A step that decodes one token is hundreds of kernels, most of them shorter than the call that launches them. A CUDA
graph launches all of them at once. Capturing runs the step once more, for each batch anew, and the graph is freed with
the batch; `torch.compile` would also fuse kernels, but generating its code takes longer than writing a text of a few
hundred tokens.
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
every prompt and every batch of sentences has a shape of its own."""


def has_graphs(device: torch.device) -> bool:
    """Whether steps can be captured on this device."""
    return device.type == "cuda"


class GraphRunner:
    """Runs a step eagerly the first three times, then captures it as a CUDA graph and replays that.

    A step takes no arguments, returns nothing and updates tensors in place: a graph knows addresses, not names. It must
    not wait for the device. A step that comes in several shapes has a graph for each. Without a GPU every run is eager.
    """

    WARM_UP = 3
    """Eager runs of a shape: libraries load kernels and choose between them in the first ones, which must not happen
    during capture."""

    failed: ClassVar[torch.cuda.CUDAGraph | None] = None
    """A capture that failed: no others are tried in this process. torch still refers to it, so it is kept alive."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._runs: Counter[int] = Counter()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def __call__(self, step: Callable[[], None], shape: int) -> None:
        """Run `step`, all of whose shapes follow from the number `shape`."""
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
            # The outer context restores the stream, which a capture that fails does not. Other threads may use the
            # device meanwhile: one fetches batches while training writes its samples.
            with torch.cuda.stream(stream), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                step()
        except RuntimeError as error:
            GraphRunner.failed = graph
            reason = str(error).partition("\n")[0]
            warnings.warn(f"decoding goes on without CUDA graphs, slower ({reason})", stacklevel=3)
        else:
            self._graphs[shape] = graph
