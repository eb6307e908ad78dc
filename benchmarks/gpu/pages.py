"""Generate the blocks of docs/gpu.md: the measurements of each stage, and the computed roofline."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.gpu.figures import STAGES, Figure, Results, largest, table
from benchmarks.gpu.roofline import roofline_table

NOTHING = "`benchmarks/results` has no results of `bash benchmarks/gpu.sh` yet."


def newest(folder: Path) -> list[Figure]:
    """Load the newest measured figures of each stage in `folder` (gpu-DATE/gpu.jsonl), except dry runs."""
    found: list[Figure] = []
    for path in sorted(folder.glob("gpu-*/gpu.jsonl"), reverse=True):
        figures = [figure for figure in Results(path.parent).figures() if not figure.dry_run]
        stages = {figure.stage for figure in figures if figure.measured} - {figure.stage for figure in found}
        found += [figure for figure in figures if figure.stage in stages]
    return found


def gpu_tables(folder: Path) -> str:
    """Return a titled table for each stage."""
    figures = newest(folder)
    if not figures:
        return NOTHING
    parts = []
    for stage, title in STAGES.items():
        if any(figure.stage == stage for figure in figures):
            parts += [f"### {title}", table(figures, stage)]
    days = {time.strftime("%Y-%m-%d", time.localtime(figure.at)) for figure in figures}
    machines, commits = {figure.machine for figure in figures}, {figure.commit for figure in figures}
    return "\n\n".join([*parts, f"{'; '.join([*sorted(days), *sorted(machines), *sorted(commits)])}."])


def gpu_roofline(folder: Path) -> str:
    """Return the roofline table, at the measured rates of the fastest machine if available."""
    figures = newest(folder)
    rates = [(largest(figures, "flops", one.machine), largest(figures, "bandwidth", one.machine)) for one in figures]
    return roofline_table(*max(rates, default=(0.0, 0.0)))
