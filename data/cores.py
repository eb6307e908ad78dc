"""How many processor cores there are for us."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process may use, at most 8: beyond that one process cannot take in what the others make."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
