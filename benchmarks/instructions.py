"""Restrict the instruction set, to estimate the speed of an older processor on a newer one."""

from __future__ import annotations

import os
from collections.abc import Mapping


def _limits(name: str, onednn: str) -> dict[str, str]:
    libraries = dict.fromkeys(("MKL_ENABLE_INSTRUCTIONS", "CT2_FORCE_CPU_ISA"), name.upper())
    torch = dict.fromkeys(("ATEN_CPU_CAPABILITY", "TORCH_COMPILE_CACHE_KEY_TAG"), name)
    return {"ONEDNN_MAX_CPU_ISA": onednn} | libraries | torch


LIMITS: Mapping[str, Mapping[str, str]] = {
    "native": {},
    "avx512": _limits("avx512", "AVX512_CORE"),
    "avx2": _limits("avx2", "AVX2"),
}
"""Environment variables by instruction set, for oneDNN, torch's own and compiled kernels, MKL and CTranslate2.

The cache tag separates compiled code by instruction set: torch 2.13 would otherwise reuse code across sets."""


def emulates(instructions: str, contender: str) -> bool:
    """Whether this is a bf16 contender, by its name, without bf16 instructions: a hundred times slower than float32."""
    return instructions != "native" and any(name in contender for name in ("bf16", "bfloat16"))


def restricted_to() -> str:
    """Return the instruction set of `LIMITS` to which the environment restricts this process, else `native`."""
    for name, limits in LIMITS.items():
        if limits and all(os.environ.get(key) == value for key, value in limits.items()):
            return name
    return "native"
