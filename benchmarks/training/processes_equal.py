"""Compare the losses of several processes with those of one, in every form of `trainer.shard`, and their memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import markdown_table
from configs.errors import UserError

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/training/processes/sharded_steps.py"
FORMS = ("none", "optimizer", "weights")
TASKS, OPTIMISERS = ("gpt", "translate"), ("adamw", "muon", "scion")
COUNTS = (2, 3, 4)
"""Numbers of processes that share 4 micro-batches: 2 and 4 evenly; of 3, one has two and the others one."""


@dataclass
class ProcessesEqualSettings:
    """Settings of `processes_equal`."""

    steps: int = 50
    """Optimiser steps, in float32."""

    width: int = 32
    """Width of the models, which have two layers."""


def processes_equal(settings: ProcessesEqualSettings) -> None:
    """Print the largest relative difference of the losses, and the bytes per parameter that each process keeps."""
    alone = trained(1, ("none",), settings)
    found = {count: trained(count, FORMS, settings) for count in COUNTS}
    columns = [f"{count} x {4 // count if 4 % count == 0 else '1-2'}" for count in COUNTS]
    differences, memory = [], []
    for shard in FORMS:
        for task in TASKS:
            for optimiser in OPTIMISERS:
                expected = alone[f"none {task} {optimiser}"]
                cells = [found[count][f"{shard} {task} {optimiser}"] for count in COUNTS]
                worst = [largest_difference(cell["losses"], expected["losses"]) for cell in cells]
                differences.append([shard, task, optimiser, *(f"{each:.1e}" for each in worst)])
                sizes = [max(cell["bytes"]) / cell["parameters"] for cell in (expected, *cells)]
                memory.append([shard, task, optimiser, *(f"{size:.1f}" for size in sizes)])
    header = ["`trainer.shard`", "task", "optimiser"]
    print(f"Largest relative difference from 1 x 4 (processes x accumulation) over {settings.steps} steps:\n")
    print(markdown_table([*header, *columns], differences))
    print("\nBytes per parameter that the largest process keeps between steps (float32, with an average):\n")
    print(markdown_table([*header, "1 process", *(f"{count} processes" for count in COUNTS)], memory))


def largest_difference(losses: list[float], expected: list[float]) -> float:
    """Return the largest relative difference between two lists of losses."""
    return max(abs(mine - theirs) / theirs for mine, theirs in zip(losses, expected, strict=True))


def trained(processes: int, shards: tuple[str, ...], settings: ProcessesEqualSettings) -> dict:
    """Train small models in several processes on this machine -> the result of SCRIPT."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    arguments = map(",".join, (shards, TASKS, OPTIMISERS))
    done = subprocess.run(
        [*launch, str(SCRIPT), *arguments, "4", str(settings.steps), str(settings.width)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UserError(f"{processes} processes failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
