"""Choose number formats: whether bfloat16 is fast on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")
"""Linux's list of processor features."""


def bf16_is_fast(device: torch.device) -> bool:
    """Whether bf16 matrix products have hardware support instead of emulation.

    On CPUs this is AMX, with which bf16 products are 4-9 times as fast as float32, and on AMD processors AVX-512 with
    bf16 instructions: 3-4 times as fast, because MKL, torch's float32 library, does not use AVX-512 there. On an Intel
    processor without AMX they take 1.6 (bf16 instructions) to 5 times as long, with AVX2 7 to 100 times (2 threads of a
    Xeon limited to each, torch 2.13).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and (amx_is_used() or amd_bf16_is_used())


def fast_format(device: torch.device) -> torch.dtype:
    """Return bfloat16 if its products are fast, else float32."""
    return torch.bfloat16 if bf16_is_fast(device) else torch.float32


def amx_is_used() -> bool:
    """Whether the processor has AMX for bf16, and oneDNN may use it."""
    return _onednn_may_use("AMX") and "amx_bf16" in _processor()


def amd_bf16_is_used() -> bool:
    """Whether this is an AMD processor with AVX-512 instructions for bf16 (since Zen 4), and oneDNN may use them."""
    processor = _processor()
    return _onednn_may_use("BF16", "FP16", "AMX") and "AuthenticAMD" in processor and "avx512_bf16" in processor


def _onednn_may_use(*sets: str) -> bool:
    """Whether oneDNN, torch's bf16 matrix library, is not restricted to instruction sets older than these (its "CPU
    Dispatcher Control")."""
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "DEFAULT")).upper()
    return allowed in ("DEFAULT", "ALL") or any(name in allowed for name in sets)


def _processor() -> str:
    return CPUINFO.read_text() if CPUINFO.exists() else ""


def instruction_set() -> str:
    """Return the best instruction set that torch's libraries may use: AMX, AVX512_BF16, AVX512, AVX2, SVE256, …"""
    if amx_is_used():
        return "AMX"
    return "AVX512_BF16" if amd_bf16_is_used() else torch.backends.cpu.get_cpu_capability()


def decoding_format(device: torch.device, parameters: int) -> str:
    """Return the weight format of `generation.fast_decoding.prepare` in which a model of this size generates fastest.

    Below four million parameters call overhead dominates, which is higher in bf16; above, products and weight reads
    dominate. Measured on CPUs. GPUs have the same two costs, and train in bf16 by default.
    """
    return "bf16" if bf16_is_fast(device) and parameters >= 4_000_000 else "float32"
