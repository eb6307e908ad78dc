"""What is asked of the operating system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

GRANTED = Path("/sys/kernel/mm/transparent_hugepage/enabled")

SCRIPT = """
import re
import resource
from pathlib import Path
from training.hardware import keep_freed_memory
import torch
def kilobytes(file, name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path(file).read_text())[1])
torch.ones(1)
before = kilobytes("/proc/self/status", "VmRSS")
keep_freed_memory()
taken = kilobytes("/proc/self/status", "VmRSS") - before
tensor = torch.ones(25_000_000)
huge = kilobytes("/proc/self/smaps_rollup", "AnonHugePages")
del tensor
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
tensor = torch.ones(25_000_000)
print(taken, huge, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="asks glibc on Linux")
def test_large_tensors_are_reused_and_lie_in_huge_pages_where_linux_grants_them() -> None:
    """Guards: a reservation that takes memory or has no effect, and blocks that are returned and mapped anew."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    taken, huge, faults = ran.stdout.split()
    assert int(taken) < 4_000
    assert int(faults) < 25, "mapped anew: 48 huge pages, or 24,414 small ones"
    if GRANTED.exists() and "[never]" not in GRANTED.read_text():
        assert int(huge) > 50_000
