"""Asynchronous copies from the device to the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class HostCopy:
    """An asynchronous copy of a tensor to the CPU: the device goes on while its values are on their way."""

    def __init__(self, tensor: Tensor) -> None:
        """Copies the values that the tensor has after everything queued on the device so far.

        Asynchronous on CUDA alone: on other devices a non-blocking copy may be read before it is written.
        """
        self._copy = tensor.to("cpu", non_blocking=tensor.is_cuda, copy=True)
        self._done: torch.cuda.Event | None = None
        if tensor.is_cuda:
            self._done = torch.cuda.Event()
            self._done.record()

    def values(self) -> Any:
        """Wait for the copy; a number or nested lists."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy.tolist()
