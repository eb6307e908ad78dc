"""Count the processor cores available to this process, and pause its garbage collector."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cores() -> int:
    """Return the number of cores that this process may use: its affinity mask, at most its CPU quota, rounded."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, round(min(allowed, cpu_quota())))


def workers() -> int:
    """Return the number of worker threads or processes: one per core, but at most 8, enough to keep one consumer
    busy."""
    return min(8, cores())


def cpu_quota(membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the CPU seconds per second that the control groups of this process allow (`docker run --cpus`, a
    Kubernetes limit); infinity if there is no limit.

    The lowest limit on the way to the root applies. In a container, the path listed in /proc may be the host's path and
    not visible in the mount; the container's own group is then the root of the mount.
    """
    try:
        groups = [line.split(":", 2)[1:] for line in membership.read_text("utf-8").splitlines()]
    except OSError:
        return math.inf
    quotas = [math.inf]
    for controllers, path in groups:
        if controllers == "" or "cpu" in controllers.split(","):  # cgroup v2, or the v1 hierarchy with CPU limits
            root = mount / controllers
            group = root / path.strip("/")
            for folder in (group, *group.parents):
                quotas.append(_quota(folder))
                if folder == root:
                    break
    return min(quotas)


def _quota(group: Path) -> float:
    """Return the limit of one control group: `cpu.max` in cgroup v2, two files in v1."""
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

    Rows with spans consist of millions of lists without cycles: scanning them repeatedly would take 25 % of the time
    needed to draw the rows, and 90 % of the time needed to read them from a table.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
