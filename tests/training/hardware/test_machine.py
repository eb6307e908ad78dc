"""What is asked of the operating system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, environment
from training.hardware import machine as hardware
from training.hardware.machine import addresses_are_free, bf16_is_fast, choose_hardware

SCRIPT = """
import re
from pathlib import Path
from training.hardware.machine import keep_freed_memory
import torch

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

torch.ones(1)
before = resident()
keep_freed_memory()
taken = resident() - before
middle = torch.ones(25_000_000)[12_500_000:].data_ptr()
for mapping in re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
    first, last = (int(address, 16) for address in mapping.split()[0].split("-"))
    if first <= middle < last:
        print(taken, "hg" in mapping[mapping.index("VmFlags:"):].split())
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="asks glibc on Linux")
def test_huge_pages_are_asked_for_where_large_tensors_will_lie_and_no_memory_is_taken() -> None:
    """Guards: a reservation that takes memory, or marks addresses that no tensor is given."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    taken, asked = ran.stdout.split()
    assert int(taken) < 4_000
    assert asked == str(addresses_are_free())


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="asks glibc on Linux")
def test_under_a_limit_of_addresses_none_are_reserved() -> None:
    """Guards: `ulimit -v`, under which threads and files would find nothing left."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n" + SCRIPT
    ran = subprocess.run(
        [sys.executable, "-c", limited], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    assert ran.stdout.split()[1] == "False"


@pytest.mark.parametrize(
    ("flags", "allowed", "fast"),
    [
        ("avx512f avx512_bf16 amx_bf16 amx_tile", None, True),
        ("avx512f avx512_bf16 amx_bf16 amx_tile", "AVX512_CORE_AMX", True),
        ("avx512f avx512_bf16 amx_bf16 amx_tile", "avx512_core_bf16", False),
        ("avx512f avx512_bf16 amx_bf16 amx_tile", "AVX2", False),
        ("avx512f avx512_bf16", None, False),
    ],
)
def test_bf16_is_chosen_where_matrix_units_may_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, allowed: str | None, fast: bool
) -> None:
    """Guards: bfloat16 in emulation where the library is held to an older instruction set than the processor has."""
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    monkeypatch.setattr(hardware, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if allowed is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", allowed)
    assert bf16_is_fast(torch.device("cpu")) == fast


def test_the_log_says_what_the_libraries_use_and_what_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards: a run a hundred times slower than it could be, and not a word about the reason."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    capability = torch.backends.cpu.get_cpu_capability()
    assert choose_hardware("cpu", "auto", None).description.endswith(f"{capability}), float32")
    assert "emulated" in choose_hardware("cpu", "bf16", None).description
