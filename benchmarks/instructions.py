"""Contenders held to the instruction set of an older processor: what most computers have can be measured on a
new one."""

from __future__ import annotations

from collections.abc import Mapping

LIMITS: Mapping[str, Mapping[str, str]] = {
    "native": {},
    "avx512": {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "CT2_FORCE_CPU_ISA": "AVX512",
        "TORCH_COMPILE_CACHE_KEY_TAG": "avx512",
    },
    "avx2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
        "TORCH_COMPILE_CACHE_KEY_TAG": "avx2",
    },
}
"""Environment variables by instruction set: oneDNN, torch's own kernels and what its compiler writes, MKL, CTranslate2.

The last keeps compiled code apart: torch 2.13 would find that of other vectors again."""


def emulates(instructions: str, contender: str) -> bool:
    """Whether a contender, whose name says its number format, computes in bf16 without instructions for it.

    Then a step can take a hundred times as long as in float32, and nobody would choose it.
    """
    return instructions != "native" and any(name in contender for name in ("bf16", "bfloat16"))
