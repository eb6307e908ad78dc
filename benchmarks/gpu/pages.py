"""Generate the blocks of docs/gpu.md: the measurements of each stage, and the computed roofline."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.gpu.figures import STAGES, Figure, Results, largest, table
from benchmarks.gpu.roofline import roofline_table

NOTHING = "`benchmarks/results` has no results of `bash benchmarks/gpu.sh` yet."


def newest(folder: Path) -> list[Figure]:
    """Load the newest results in `folder` (gpu-DATE/gpu.jsonl), except dry runs."""
    for path in sorted(folder.glob("gpu-*/gpu.jsonl"), reverse=True):
        figures = Results(path.parent).figures()
        if figures and not figures[0].dry_run:
            return figures
    return []


def gpu_tables(folder: Path) -> str:
    """Return a titled table for each stage."""
    figures = newest(folder)
    if not figures:
        return NOTHING
    parts = []
    for stage, title in STAGES.items():
        if any(figure.stage == stage for figure in figures):
            parts += [f"### {title}", table(figures, stage)]
    day = time.strftime("%Y-%m-%d", time.localtime(max(figure.at for figure in figures)))
    return "\n\n".join([*parts, f"{day}; {'; '.join(sorted({figure.machine for figure in figures}))}."])


def gpu_roofline(folder: Path) -> str:
    """Return the roofline table, at the measured rates if available."""
    figures = newest(folder)
    return roofline_table(largest(figures, "flops"), largest(figures, "bandwidth"))
