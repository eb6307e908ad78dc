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

from tests.conftest import ROOT, environment
from tests.robustness.torture.recipes import RUN

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
    cpu_seconds: float


def start(folder: Path, recipe: list[str], place: str, chance: random.Random, longest: float = math.inf) -> Start:
    """Start or resume the run in `folder` as a user does, and kill it in a place.

    longest: the most CPU time until a kill at a random instant, in seconds. If the process ends before its kill,
    nothing is killed.
    """
    arguments = [f"resume={RUN}"] if (folder / RUN / "checkpoints" / "last").exists() else recipe
    variables = {"OMP_NUM_THREADS": "1"}
    if place in HOOKED:
        pattern, times, calls = HOOKED[place]
        count = int(math.exp(chance.uniform(0, math.log(calls)))) - 1  # near the file operation more often than far
        variables |= {"CHUMOKU_KILL": f"{pattern} {chance.randint(1, times)} {count}"}
    full = environment() | variables
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *arguments],
            cwd=folder,
            env=full | {"PYTHONPATH": os.pathsep.join((str(INSIDE), full["PYTHONPATH"]))},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            used = wait_for(process, folder, place, chance, longest)
        finally:
            process.kill()
            process.wait()
    text = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    return Start(process.returncode == -signal.SIGKILL, process.returncode, text, used)


def wait_for(process: subprocess.Popen, folder: Path, place: str, chance: random.Random, longest: float) -> float:
    """Wait until the place is reached and random CPU time more is used, or until the process ends -> its CPU time.

    CPU time, because a busy machine slows a process down several times, and not evenly. Without Linux's /proc a clock.
    """
    used, reached, until = 0.0, False, math.inf
    began, before, has_proc = time.monotonic(), finished_lines(folder), Path("/proc/self/stat").exists()
    while process.poll() is None and used < until:
        used = cpu_seconds(process.pid) if has_proc else time.monotonic() - began
        if not reached and is_reached(place, folder, before):
            reached = True
            until = used + delay(place, chance, longest)
        time.sleep(0.002)
    if used >= until:
        time.sleep(chance.uniform(0, 0.01))  # the system counts in steps of 10 ms; also hits waiting for the disk
    return used


def is_reached(place: str, folder: Path, before: int) -> bool:
    """Whether the work of a place has begun; `before`: the number of `finished_lines` at the start."""
    if place in WATCHED:
        return any(folder.glob(WATCHED[place]))
    return finished_lines(folder) > before if place == FINAL_TEST else True


def delay(place: str, chance: random.Random, longest: float) -> float:
    """Return the CPU time between reaching a place and the kill."""
    if place in HOOKED or (place == RANDOM and longest == math.inf):
        return math.inf  # the process kills itself, or nothing does
    if place == RANDOM:
        return chance.uniform(0, longest)
    return chance.uniform(0, 1) ** 2 * (2.0 if place == FINAL_TEST else 0.3)


def finished_lines(folder: Path) -> int:
    """Return how often the log says that training is over and the final test begins."""
    log = folder / RUN / "log.txt"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text.count("finished at step") + text.count("already at step")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process in seconds (Linux). Unlike wall-clock time it depends little on other load."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
