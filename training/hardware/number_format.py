"""Number formats and instruction sets: whether bfloat16 pays on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")
"""Where Linux says what the processor can do."""


def bf16_is_fast(device: torch.device) -> bool:
    """Whether bf16 matrix products run on hardware of their own, not in emulation.

    On CPUs that is AMX: bf16 products are then 4-9 times as fast as float32. With AVX-512 alone they take 1.6 (bf16
    instructions) to 5 times as long as float32, with AVX2 7 to 100 times (2 threads of a Xeon, each held to these
    instructions, torch 2.13).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and amx_is_used()


def fast_format(device: torch.device) -> torch.dtype:
    """bfloat16 where its products are fast, else float32."""
    return torch.bfloat16 if bf16_is_fast(device) else torch.float32


def amx_is_used() -> bool:
    """Whether the processor has AMX for bf16 and oneDNN, which multiplies bf16 matrices for torch, may use it.

    oneDNN can be held to an older instruction set (its "CPU Dispatcher Control"): then what the processor has does not
    count.
    """
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "DEFAULT")).upper()
    if "AMX" not in allowed and allowed not in ("DEFAULT", "ALL"):
        return False
    return CPUINFO.exists() and "amx_bf16" in CPUINFO.read_text()


def instruction_set() -> str:
    """What torch's libraries may use of this processor, as its makers call it: AMX, AVX512, AVX2, SVE256, …"""
    return "AMX" if amx_is_used() else torch.backends.cpu.get_cpu_capability()


def decoding_format(device: torch.device, parameters: int) -> str:
    """Format of the weights, as `model.fast.decoding.prepare` names it, in which a model of so many parameters writes
    fastest.

    Below four million a step is all calls, of which bf16 needs more; above, products and reading weights take the time.
    Measured on CPUs. A GPU has the same two costs, and by default bf16 weights are the very ones that it has trained
    with.
    """
    return "bf16" if bf16_is_fast(device) and parameters >= 4_000_000 else "float32"
