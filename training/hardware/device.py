"""Choose the device that the user requests, check that it works, and choose its number format."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from configs.errors import UserError
from data.cpu_cores import cores
from training.hardware import apple_gpu
from training.hardware.allocator import keep_freed_memory
from training.hardware.bfloat16 import bf16_is_fast, fast_format, instruction_set

PEAK_FLOPS = {
    "H200": 989e12,  # H200 data sheet: SXM 1,979 TFLOPS, NVL 1,671, both with sparsity, which doubles them
    "H200 NVL": 835e12,
    "H100 80GB HBM3": 989e12,  # SXM. H100 data sheet: SXM 1,979, PCIe 1,513, NVL 1,671, with sparsity
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "A100-SXM4-40GB": 312e12,  # A100 data sheet: 312, all variants alike
    "A100-SXM4-80GB": 312e12,
    "A100-PCIE-40GB": 312e12,
    "A100 80GB PCIe": 312e12,
    "L40S": 362e12,  # L40S data sheet: 362
    "L4": 121e12,  # L4 data sheet: 242 with sparsity
    "GeForce RTX 4090": 165e12,  # Ada GPU architecture, appendix A: 165.2 with float32 accumulation
}
"""Dense bf16 peak in FLOP/s by the whole name of a GPU, as torch gives it without `NVIDIA`, for the model FLOP
utilisation. Other variants of a card (laptop, MIG, PCIe, 64 GB) have other peaks, and are unknown."""


@dataclass(frozen=True)
class Hardware:
    """Device and number format of a run."""

    device: torch.device
    dtype: torch.dtype
    """Number format of weights and activations; bf16 weights have float32 master weights."""
    peak_flops: float | None
    """Dense peak in FLOP/s if known, else None."""
    description: str


def choose_hardware(
    device: str, precision: str, threads: int | None, key: str = "trainer.device", local_rank: int | None = None
) -> Hardware:
    """Choose the device and the precision; the arguments are the settings of the same names in `TrainerConfig`.

    threads: None uses the physical cores, as torch does, limited by a container's quota. key: the setting that names
    the device. local_rank: number of this process on its machine if there are several, each with a GPU of its own.
    Raises UserError if the requested device is unavailable.
    """
    if local_rank is not None:
        device = device_of_process(device, local_rank, key)
    chosen = choose_device(device, key)
    name = chosen.type
    wanted = threads or min(torch.get_num_threads(), cores())
    if wanted != torch.get_num_threads():
        torch.set_num_threads(wanted)
    if name == "cpu":
        keep_freed_memory()
    dtype = {"float32": torch.float32, "bf16": torch.bfloat16}.get(precision) or fast_format(chosen)
    model = f"{torch.cuda.get_device_name(chosen)} ({chosen})" if name == "cuda" else name
    peak = peak_flops(torch.cuda.get_device_name(chosen)) if name == "cuda" and dtype == torch.bfloat16 else None
    used = f" ({torch.get_num_threads()} threads, {instruction_set()})" if name == "cpu" else ""
    emulated = name == "cpu" and dtype == torch.bfloat16 and not bf16_is_fast(chosen)
    words = str(dtype).removeprefix("torch.") + (" (emulated: float32 is many times as fast)" if emulated else "")
    return Hardware(chosen, dtype, peak, f"{model}{used}, {words}")


def peak_flops(name: str) -> float | None:
    """Return the dense bf16 peak in FLOP/s of the GPU that torch calls `name`; None if unknown."""
    return PEAK_FLOPS.get(name.removeprefix("NVIDIA "))


def device_of_process(name: str, local_rank: int, key: str) -> str:
    """Return the device of one of several processes on a machine: process 3 uses `cuda:3`."""
    if name.startswith("cuda:") and int(name.partition(":")[2]) != local_rank:
        raise UserError(f"{key}={name}: several processes cannot share a GPU; set {key}=cuda, and each uses its own")
    return f"cuda:{local_rank}" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else name


def choose_device(name: str, key: str = "trainer.device") -> torch.device:
    """Return the device of a setting: `cpu`, `cuda`, `cuda:N`, `mps`, or `auto` for a CUDA GPU if available, else CPU.

    `auto` ignores Apple GPUs, on which this program is untested. A CUDA GPU becomes torch's current device, so that
    kernels, CUDA graphs, random numbers and memory statistics refer to it. key: the setting, for messages. Raises
    UserError if the device is unavailable or fails.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device("cuda:0" if name == "cuda" else name)
    if reason := _obstacle(device) or _failure(device):
        raise UserError(f"{key}={name}: {reason}; {key}=cpu always works")
    return device


def _obstacle(device: torch.device) -> str | None:
    """Return why torch cannot use this device, or None."""
    if device.type == "mps":
        return apple_gpu.obstacle()
    if device.type != "cuda":
        return None
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not there:
        return "torch found no CUDA GPU"
    if device.index >= there:
        return "the only CUDA GPU is cuda:0" if there == 1 else f"the CUDA GPUs are cuda:0 to cuda:{there - 1}"
    return None


def _failure(device: torch.device) -> str | None:
    """Return why a first operation on the device fails (no kernels for it, memory full, device locked), or None."""
    try:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        torch.ones(2, device=device).sum().item()
    except (RuntimeError, AssertionError) as error:
        return f"the device does not work ({str(error).strip().splitlines()[0]})"
    return None
