"""Number of cores: affinity and the CPU quota of a container."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from data.cpu_cores import cores, cpu_quota
from tests.data.conftest import write


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {}, math.inf),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2),
        (
            "3:memory:/x\n2:cpu,cpuacct:/x\n0::/\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("1:cpu:/docker/of-the-host\n", {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    ],
    ids=["no files", "no limit", "v2", "v2 in a parent", "v1", "v1 without limit", "v1 in a container"],
)
def test_the_quota_of_a_container_is_read(
    tmp_path: Path, membership: str, files: dict[str, str], expected: float
) -> None:
    """Guards containers with a CPU limit: the kernel would pause additional threads in the middle of each step."""
    for name, content in files.items():
        write(tmp_path / "mount" / name, content)
    assert cpu_quota(write(tmp_path / "cgroup", membership), tmp_path / "mount") == expected


def test_a_system_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    """Guards macOS and Windows."""
    assert cpu_quota(tmp_path / "missing", tmp_path) == math.inf


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_cores_are_those_that_the_process_may_run_on() -> None:
    """Guards shared machines: `taskset` and batch systems restrict a job to some of the cores."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
