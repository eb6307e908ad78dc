"""The device that computes: the one that was asked for, if it is there and works, and its number format."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from configs.errors import UserError
from data.processes import cores
from training.hardware import apple_gpu
from training.hardware.allocator import keep_freed_memory
from training.hardware.number_format import bf16_is_fast, fast_format, instruction_set

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bf16 peak by GPU name (vendors' data sheets), for the model FLOP utilisation."""


@dataclass(frozen=True)
class Hardware:
    """Where and how the run computes."""

    device: torch.device
    dtype: torch.dtype
    """Number format of weights and activations; float32 master copies are kept beside bf16 weights."""
    peak_flops: float | None
    """Dense peak in FLOP/s where it is known, else None."""
    description: str


def choose_hardware(device: str, precision: str, threads: int | None, key: str = "trainer.device") -> Hardware:
    """Pick device and number format by capability; the arguments are the settings of those names in `TrainerConfig`.

    threads: None takes the physical cores, as torch does, but no more than a container's quota. key: the setting that
    names the device. Raises UserError when a device is asked for that is not there.
    """
    chosen = choose_device(device, key)
    name = chosen.type
    wanted = threads or min(torch.get_num_threads(), cores())
    if wanted != torch.get_num_threads():
        torch.set_num_threads(wanted)
    if name == "cpu":
        keep_freed_memory()
    dtype = {"float32": torch.float32, "bf16": torch.bfloat16}.get(precision) or fast_format(chosen)
    model = f"{torch.cuda.get_device_name(chosen)} ({chosen})" if name == "cuda" else name
    peaks = (flops for gpu, flops in PEAK_FLOPS.items() if re.search(rf"\b{gpu}\b", model))
    peak = next(peaks, None) if dtype == torch.bfloat16 else None
    used = f" ({torch.get_num_threads()} threads, {instruction_set()})" if name == "cpu" else ""
    emulated = name == "cpu" and dtype == torch.bfloat16 and not bf16_is_fast(chosen)
    words = str(dtype).removeprefix("torch.") + (" (emulated: float32 is many times as fast)" if emulated else "")
    return Hardware(chosen, dtype, peak, f"{model}{used}, {words}")


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
