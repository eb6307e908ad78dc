"""Generate the blocks of docs/gpu.md: the measurements of each stage, and the computed roofline."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.gpu.figures import Stage, largest
from benchmarks.gpu.roofline import roofline_table
from benchmarks.report import markdown_table

NOTHING = "No GPU has been measured yet: `bash benchmarks/gpu.sh`."

TITLES = {
    "machine": "The machine",
    "tests": "Tests",
    "attention": "Attention, forward/backward",
    "training": "Training",
    "text": "One minute of training on Shakespeare",
    "kernels": "Kernels of a step",
    "decoding": "Decoding",
    "maps": "Recording attention maps",
    "translation": "A translator",
}


def newest(folder: Path) -> tuple[str, list[Stage]]:
    """Load the newest results in `folder` (gpu-DATE/gpu.json), except dry runs -> (date, stages), ("", []) if none."""
    for path in sorted(folder.glob("gpu-*/gpu.json"), reverse=True):
        values = json.loads(path.read_text(encoding="utf-8"))
        if not values["dry_run"]:
            return values["date"], [Stage.from_values(stage) for stage in values["stages"]]
    return "", []


def gpu_tables(folder: Path) -> str:
    """Return a titled table for each stage."""
    day, stages = newest(folder)
    if not stages:
        return NOTHING
    parts = []
    for stage in stages:
        table = markdown_table(("measurement", "result", "comparison"), (figure.cells for figure in stage.figures))
        parts += [f"### {TITLES[stage.name]}", table]
    return "\n\n".join([*parts, f"{day}; stages took {sum(stage.seconds for stage in stages):.0f} s."])


def gpu_roofline(folder: Path) -> str:
    """Return the roofline table, at the measured rates if available."""
    stages = newest(folder)[1]
    return roofline_table(largest(stages, "flops"), largest(stages, "bandwidth"))
