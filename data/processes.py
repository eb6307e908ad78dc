"""Processor cores that this process may use, and pauses of its garbage collector."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cores() -> int:
    """Number of cores that this process may use: those of its affinity mask, but at most the CPU quota of its
    container, rounded."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, round(min(allowed, cpu_quota())))


def workers() -> int:
    """Number of threads or processes that work for this one: one per core, at most 8, since one process cannot consume
    the results of more."""
    return min(8, cores())


def cpu_quota(membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> float:
    """CPU seconds per second that the control groups of this process allow (`docker run --cpus`, a Kubernetes limit);
    infinite without a limit.

    The lowest limit on the path to the root counts. Inside a container the listed group may be one of the host, which
    is not mounted; the container's own group is then the root of the mount.
    """
    try:
        groups = [line.split(":", 2)[1:] for line in membership.read_text("utf-8").splitlines()]
    except OSError:
        return math.inf
    quotas = [math.inf]
    for controllers, path in groups:
        if controllers == "" or "cpu" in controllers.split(","):  # cgroup v2, or the hierarchy of v1 that has limits
            root = mount / controllers
            group = root / path.strip("/")
            for folder in (group, *group.parents):
                quotas.append(_quota(folder))
                if folder == root:
                    break
    return min(quotas)


def _quota(group: Path) -> float:
    """Limit of one control group: `cpu.max` in cgroup v2, two files in v1."""
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text("utf-8").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text("utf-8").strip() for name in ("quota", "period"))
    except OSError:
        return math.inf
    return math.inf if quota in ("max", "-1") else int(quota) / int(period)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the collector of reference cycles.

    Rows with spans are millions of lists without a cycle: scanning them again and again takes a quarter of the time of
    drawing them, and nine tenths of the time of reading them from a table.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
