"""What is asked of the operating system."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import re
from pathlib import Path
from training.hardware import keep_freed_memory
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
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    taken, asked = ran.stdout.split()
    assert int(taken) < 4_000
    assert asked == "True"
