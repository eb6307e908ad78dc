"""How many processor cores there are for us."""

from __future__ import annotations

import math
import os
from pathlib import Path


def cores() -> int:
    """Cores that this process may use: those it may run on, but no more than the CPU quota of its container,
    rounded."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, round(min(allowed, cpu_quota())))


def workers() -> int:
    """Threads or processes whose results one process takes in: a worker a core, but beyond 8 that process cannot keep
    up."""
    return min(8, cores())


def cpu_quota(membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> float:
    """CPU time per second of real time that the control groups of this process allow (`docker run --cpus`, a Kubernetes
    limit); infinite without a limit.

    A limit of any group on the way to the root counts. Inside a container the listed group may be one of the host,
    which is not mounted; the container's own is then the root of the mount.
    """
    try:
        groups = [line.split(":", 2)[1:] for line in membership.read_text("utf-8").splitlines()]
    except OSError:
        return math.inf
    quotas = [math.inf]
    for controllers, path in groups:
        if controllers == "" or "cpu" in controllers.split(","):  # version 2, or the hierarchy of version 1 that limits
            root = mount / controllers
            group = root / path.strip("/")
            for folder in (group, *group.parents):
                quotas.append(_quota(folder))
                if folder == root:
                    break
    return min(quotas)


def _quota(group: Path) -> float:
    """Limit of one control group: `cpu.max` in version 2, two files in version 1."""
    try:
        if (group / "cpu.max").is_file():
            quota, period = (group / "cpu.max").read_text("utf-8").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text("utf-8").strip() for name in ("quota", "period"))
    except OSError:
        return math.inf
    return math.inf if quota in ("max", "-1") else int(quota) / int(period)
