"""Compare two processes of one thread each with one process of two threads, and measure an all-reduce."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.report import markdown_table
from configs.errors import UserError

ROOT = Path(__file__).parents[2]
TASKS = {"GPT": ["model=small"], "translator": ["task=translate", "model=small_translator"]}
MEGABYTES = (0.01, 0.1, 1, 10, 100)


@dataclass
class ProcessesSettings:
    """Settings of `processes`."""

    steps: int = 30
    """Optimiser steps of each run."""

    rounds: int = 3
    """Runs of each kind, in turns."""

    accumulate: int = 2
    """Micro-batches per step; several processes divide them among themselves."""

    cache: str = ".cache/chumoku"
    """Folder of the prepared data."""


def processes(settings: ProcessesSettings) -> None:
    """Print the training speed with one and two processes on two cores, and the duration of an all-reduce."""
    rows = []
    for task, chosen in TASKS.items():
        speeds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(settings.rounds):
            for count, found in speeds.items():
                found.append(tokens_per_second(count, chosen, settings))
        one, two = median(speeds[1]), median(speeds[2])
        rows.append([task, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}"])
    print("Tokens per second, median of the runs:\n")
    print(markdown_table(["task", "1 process, 2 threads", "2 processes, 1 thread each", "ratio"], rows))
    print("\nAll-reduce of float32 in two processes:\n")
    done = launched(2, ["-m", "benchmarks.training.all_reduce", *map(str, MEGABYTES)], Path.cwd())
    seconds = json.loads(done.splitlines()[-1])
    rows = [[f"{float(size):g}", f"{1000 * took:.2f}", f"{float(size) / took:.0f}"] for size, took in seconds.items()]
    print(markdown_table(["megabytes", "milliseconds", "MB/s"], rows))


def tokens_per_second(count: int, task: list[str], settings: ProcessesSettings) -> float:
    """Train in `count` processes on two cores -> median speed of the steps."""
    with tempfile.TemporaryDirectory() as folder:
        launched(
            count,
            [
                str(ROOT / "train.py"),
                *task,
                f"trainer.steps={settings.steps}",
                f"trainer.accumulate={settings.accumulate}",
                f"trainer.threads={2 // count}",
                "trainer.evaluate_every=100000",
                "trainer.samples=0",
                "trainer.evaluate_sentences=0",
                "trainer.test=false",
                "trainer.log_every=1",
                "attention=off",
                "data.valid_tokens=1000",
                f"data.cache={Path(settings.cache).absolute()}",
                "name=run",
            ],
            Path(folder),
        )
        points = EventAccumulator(str(Path(folder) / "runs" / "run")).Reload().Scalars("speed/tokens_per_second")
    return median(point.value for point in points[settings.steps // 3 :])


def launched(count: int, command: list[str], folder: Path) -> str:
    """Run a Python command in `count` processes -> its output. Raises UserError if it fails."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"] if count > 1 else []
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(max(1, 2 // count))}
    whole = [sys.executable, *launch, *command]
    done = subprocess.run(whole, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{count} processes failed: {done.stderr[-2000:]}")
    return done.stdout
