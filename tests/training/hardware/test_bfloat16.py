"""The number format for each kind of processor."""

from pathlib import Path

import pytest
import torch

from training.hardware import bfloat16
from training.hardware.bfloat16 import bf16_is_fast
from training.hardware.device import choose_hardware


@pytest.mark.parametrize(
    ("vendor", "flags", "allowed", "fast"),
    [
        ("GenuineIntel", "avx512f avx512_bf16 amx_bf16 amx_tile", None, True),
        ("GenuineIntel", "avx512f avx512_bf16 amx_bf16 amx_tile", "AVX512_CORE_AMX", True),
        ("GenuineIntel", "avx512f avx512_bf16 amx_bf16 amx_tile", "avx512_core_bf16", False),
        ("GenuineIntel", "avx512f avx512_bf16 amx_bf16 amx_tile", "AVX2", False),
        ("GenuineIntel", "avx512f avx512_bf16", None, False),
        ("AuthenticAMD", "avx512f avx512_bf16", None, True),
        ("AuthenticAMD", "avx512f avx512_bf16", "avx512_core_bf16", True),
        ("AuthenticAMD", "avx512f avx512_bf16", "AVX512_CORE", False),
        ("AuthenticAMD", "avx512f", None, False),
    ],
)
def test_bf16_is_chosen_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vendor: str, flags: str, allowed: str | None, fast: bool
) -> None:
    """Guards against bfloat16 on a processor whose float32 is faster, and against emulated bfloat16 if the library is
    restricted to an older instruction set than the processor has."""
    (tmp_path / "cpuinfo").write_text(f"vendor_id : {vendor}\nflags : {flags}\n")
    monkeypatch.setattr(bfloat16, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if allowed is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", allowed)
    assert bf16_is_fast(torch.device("cpu")) == fast


def test_the_log_says_what_the_libraries_use_and_what_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a run that is a hundred times slower than possible, without a word about the reason."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    capability = torch.backends.cpu.get_cpu_capability()
    assert choose_hardware("cpu", "auto", None).description.endswith(f"{capability}), float32")
    assert "emulated" in choose_hardware("cpu", "bf16", None).description
