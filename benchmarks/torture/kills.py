"""Kill a training process: at a random instant, or inside a chosen piece of work."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT, environment
from benchmarks.torture.recipes import RUN

INSIDE = Path(__file__).parent / "inside"

HOOKED = {
    "checkpoint": (r"checkpoints/", 30, 3000),
    "recording": (r"attention/", 6, 300),
    "event file": (r"events\.out\.tfevents", 25, 60),
    "metrics or test": (r"metrics\.jsonl|run/\.[^/]*\.(txt|tsv|json)", 8, 100),
}
"""Paths of a piece of work, the largest number of matching file operations before the kill, and of calls after them."""

WATCHED = {"rows": "cache/rows/.*", "tokenizer training": "cache/tokenizers/.*", "tokens": "cache/tokens/.*"}
"""Folders that exist while something is prepared."""

FINAL_TEST = "final test"
RANDOM = "random instant"
PREPARING, WRITING, TESTING, ANY = tuple(WATCHED), tuple(HOOKED), (FINAL_TEST,), (RANDOM,)
Plan = tuple[tuple[str, ...], ...]
PLAN: Plan = (PREPARING, ANY, ANY, WRITING, ANY, ANY, WRITING, ANY, TESTING, ANY, ANY, TESTING)
"""Places of the kills of one run, in order; where there are several they take turns."""


@dataclass(frozen=True)
class Start:
    """One start of train.py that was, or was not, killed."""

    killed: bool
    code: int
    output: str
    seconds: float


def start(folder: Path, recipe: list[str], place: str, chance: random.Random, seconds: float = math.inf) -> Start:
    """Start or resume the run in `folder` as a user does, and kill it in a place.

    seconds: the longest time until a kill at a random instant. If the process ends before its kill, nothing is killed.
    """
    arguments = [f"resume={RUN}"] if (folder / RUN / "checkpoints" / "last").exists() else recipe
    variables = {"OMP_NUM_THREADS": "1"}
    if place in HOOKED:
        pattern, times, calls = HOOKED[place]
        count = int(math.exp(chance.uniform(0, math.log(calls)))) - 1  # near the file operation more often than far
        variables |= {"CHUMOKU_KILL": f"{pattern} {chance.randint(1, times)} {count}"}
    full = environment(variables)
    began = time.monotonic()
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *arguments],
            cwd=folder,
            env=full | {"PYTHONPATH": os.pathsep.join((str(INSIDE), full["PYTHONPATH"]))},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            if place not in HOOKED and wait_for(process, folder, place, chance, seconds):
                process.kill()
            process.wait()
        finally:
            process.kill()
    text = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    return Start(process.returncode == -signal.SIGKILL, process.returncode, text, time.monotonic() - began)


def wait_for(process: subprocess.Popen, folder: Path, place: str, chance: random.Random, seconds: float) -> bool:
    """Wait until the place is reached, and a random time more; return whether the process is still running."""
    if place == RANDOM:
        delay = math.inf if seconds == math.inf else chance.uniform(0, seconds)
    else:
        delay = chance.uniform(0, 1) ** 2 * (2.0 if place == FINAL_TEST else 0.3)
        before = finished_lines(folder)
        while not (any(folder.glob(WATCHED[place])) if place in WATCHED else finished_lines(folder) > before):
            if process.poll() is not None:
                return False
            time.sleep(0.002)
    try:
        process.wait(None if delay == math.inf else delay)
    except subprocess.TimeoutExpired:
        return True
    return False


def finished_lines(folder: Path) -> int:
    """Return how often the log says that training is over and the final test begins."""
    log = folder / RUN / "log.txt"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text.count("finished at step") + text.count("already at step")
