"""Stand-in for CUDA graphs on a CPU: operations that are recorded with their tensors and repeated on the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from generation.cuda import beam_search, graph, sampling


class RecordedGraph(TorchDispatchMode):
    """Records every operation of torch; a replay runs no Python but these operations, on tensors that stay in place.

    A capture computes nothing, but recording does: the first replay is left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.replays = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        """Run the operations again and write their results where those of the recording are."""
        self.replays += 1
        for func, args, kwargs, result in self.calls if self.replays > 1 else []:
            for old, new in zip(tree_leaves(result), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def record_graphs(monkeypatch: pytest.MonkeyPatch) -> list[RecordedGraph]:
    """Make decoding on a CPU run as on a GPU, with recorded graphs -> those that were made so far."""
    made: list[RecordedGraph] = []

    def new() -> RecordedGraph:
        made.append(RecordedGraph())
        return made[-1]

    @contextmanager
    def capture(recorded: RecordedGraph, capture_error_mode: str) -> Iterator[None]:
        with recorded:
            yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", new)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    for module in (graph, sampling, beam_search):
        monkeypatch.setattr(module, "has_graphs", lambda device: True)
    return made
