"""Copy tensors asynchronously from the device to the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class HostCopy:
    """An asynchronous copy of a tensor to the CPU: the device continues during the transfer."""

    def __init__(self, tensor: Tensor) -> None:
        """Copy the tensor to the CPU once all work already queued on the device has finished. On other devices than
        CUDA, where a non-blocking copy could be read before it is written, `values` transfers the copy."""
        self._copy = tensor.to("cpu", non_blocking=True, copy=True) if tensor.is_cuda else tensor.clone()
        self._done: torch.cuda.Event | None = None
        if tensor.is_cuda:
            self._done = torch.cuda.Event()
            self._done.record()

    def values(self) -> Any:
        """Wait for the copy and return a number or nested lists."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy.cpu().tolist()
