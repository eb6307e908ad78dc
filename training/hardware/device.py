"""Which device computes: the one that was asked for, if it is there and works; and whether it has run out of memory."""

from __future__ import annotations

import torch

from configs.errors import UserError
from training.hardware import apple_gpu

_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED", "bad_alloc")


def choose_device(name: str, key: str = "trainer.device") -> torch.device:
    """The device that a setting names: `cpu`, `cuda`, `cuda:N`, `mps`, or `auto` for a CUDA GPU where there is one,
    else the CPU.

    `auto` does not take Apple's GPUs, which this program has never been run on. A CUDA GPU becomes torch's current
    device, so that kernels, CUDA graphs, random numbers and memory statistics are those of this GPU. key: the setting,
    for messages. Raises UserError where the device is not there or does not compute.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device("cuda:0" if name == "cuda" else name)
    if reason := _obstacle(device) or _failure(device):
        raise UserError(f"{key}={name}: {reason}; {key}=cpu always works")
    return device


def _obstacle(device: torch.device) -> str | None:
    """Why torch cannot compute on this device here, or None."""
    if device.type == "mps":
        return apple_gpu.obstacle()
    if device.type != "cuda":
        return None
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not there:
        return "torch sees no CUDA GPU here"
    if device.index >= there:
        return "there is only cuda:0 here" if there == 1 else f"there are only cuda:0 to cuda:{there - 1} here"
    return None


def _failure(device: torch.device) -> str | None:
    """Why a first operation fails on a device that is there, or None: no kernels for this GPU, all its memory in use, a
    lock on it."""
    try:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        torch.ones(2, device=device).sum().item()
    except (RuntimeError, AssertionError) as error:
        return f"the device does not work ({str(error).strip().splitlines()[0]})"
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator failed. Only that of CUDA has an exception of its own; errors of the others are known by
    their words."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(word in str(error) for word in _WORDS)
