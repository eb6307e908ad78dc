"""Huge pages requested from the operating system."""

import platform
import subprocess
import sys

import pytest

from tests.conftest import ROOT, environment
from training.hardware.allocator import addresses_are_free

SCRIPT = """
import re
from pathlib import Path
from training.hardware.allocator import keep_freed_memory
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="asks glibc on Linux")
def test_huge_pages_are_requested_without_using_memory() -> None:
    """Guards against a reservation that uses memory, or marks addresses that no tensor receives."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    taken, asked = ran.stdout.split()
    assert int(taken) < 4_000
    assert asked == str(addresses_are_free())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="asks glibc on Linux")
def test_under_a_limit_of_addresses_none_are_reserved() -> None:
    """Guards `ulimit -v`, under which a reservation would leave no addresses for threads and files."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n" + SCRIPT
    ran = subprocess.run(
        [sys.executable, "-c", limited], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True
    )
    assert ran.stdout.split()[1] == "False"
