"""The training state at one step, to be written by another thread while training continues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_CHUNK = 4 << 20
"""Bytes of weights written while holding the lock: the longest wait for it is a few milliseconds."""


class Snapshot:
    """Weights and remaining state at one step.

    On a CPU nothing is copied when it is taken. Only an optimiser step changes the tensors: `before_update` makes it
    wait until the state is written and then copies the weights that are not written yet. So the additional memory is at
    most one copy of the weights, and usually zero: an evaluation, or the forward and backward pass of a large model,
    takes longer than writing the files into the page cache. From a GPU everything is copied to host memory at once.
    """

    def __init__(self, weights: dict[str, Tensor], state: dict) -> None:
        self.state: dict = _on_cpu(state)
        self._weights = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        self._shared = any(tensor.is_cpu for tensor in weights.values())
        self._unwritten = sorted(self._weights)
        self._lock = threading.Lock()
        self._state_is_written = threading.Event()

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights in the order of `write_weights`, to read names and shapes; training may change the values."""
        return dict(sorted(self._weights.items()))

    def write_weights(self, write: Callable[[memoryview], object]) -> None:
        """Pass the content of the weights to `write` in pieces, in the order of `weights`. Ends the use of `state`."""
        self._state_is_written.set()
        for name in sorted(self._weights):
            size = self._weights[name].nbytes
            for start in range(0, size, _CHUNK):
                with self._lock:
                    content = self._weights[name].view(-1).view(torch.uint8).numpy().data
                    write(content[start : start + _CHUNK])
            with self._lock:
                self._unwritten.remove(name)

    def before_update(self) -> None:
        """Return when training may change its tensors."""
        if self._shared:
            self._state_is_written.wait()
            with self._lock:
                for name in self._unwritten:
                    self._weights[name] = self._weights[name].clone()
                self._shared = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The writer's context: afterwards, also after an error, `before_update` returns immediately."""
        try:
            yield
        finally:
            with self._lock:
                self._unwritten.clear()
            self._state_is_written.set()


def _on_cpu(value: Any) -> Any:
    """Return a nested structure with new containers and with its tensors on the CPU, not copied if they are there."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_on_cpu(inner) for inner in value)
    return value
