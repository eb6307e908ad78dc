"""The GPU benchmark is killed at random moments and continued: no figure is lost.

`CHUMOKU_KILLS=20 CHUMOKU_SEED=2 pytest -s tests/benchmarks/test_gpu_kills.py` kills more often.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu.figures import CUT, STAGES, WHOLE, Figure, Results, table
from tests.conftest import ROOT, environment

KILLS, SEED = int(os.environ.get("CHUMOKU_KILLS", "2")), int(os.environ.get("CHUMOKU_SEED", "1"))
FIGURES, DELAY = 12, 10.0
"""A kill comes up to so many seconds after up to so many new figures: on any machine, most calls measure something."""


def files() -> set[Path]:
    """Return the files and folders where the benchmark keeps results and prepared data by default."""
    return {*(ROOT / "benchmarks" / "results").glob("gpu-*"), *(ROOT / ".cache").rglob("*")}


def started(out: Path) -> subprocess.Popen[bytes]:
    """Start a dry run in a process group of its own."""
    temporary = out.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    with (out.parent / "output").open("wb") as output:
        return subprocess.Popen(
            ["bash", str(ROOT / "benchmarks" / "gpu.sh"), "--dry-run", f"out={out}"],
            env=environment() | {"PYTHON": sys.executable, "TMPDIR": str(temporary)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def killed(process: subprocess.Popen[bytes], out: Path, chance: random.Random) -> bool:
    """Kill a dry run and wait for the end of its stage -> whether it was killed before its own end."""
    wanted, delay = len(measured(out)) + chance.randint(0, FIGURES), chance.uniform(0, DELAY)
    while process.poll() is None and len(measured(out)) < wanted:
        time.sleep(0.1)
    try:
        process.wait(delay)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lock = out / "work" / "lock"
    if lock.exists():  # a stage holds it open until it ends
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
    return True


def measured(out: Path) -> dict[tuple[str, str], Figure]:
    """Return the measured figures that are on disk."""
    return {(figure.stage, figure.what): figure for figure in Results(out).figures() if figure.measured}


@pytest.mark.slow
def test_a_dry_run_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    """Guards against the 212 s of a first run on a GPU that left not one figure, and bugs that show only there."""
    chance, before = random.Random(SEED), files()
    kills = folders = 0
    while folders == 0 or kills < KILLS:
        folders += 1
        out, seen = tmp_path / str(folders), dict[tuple[str, str], Figure]()
        process = started(out)
        while kills < KILLS and killed(process, out, chance):
            kills += 1
            now = measured(out)
            assert seen.items() <= now.items()
            waits = [f"{one.stage}: {one.what}" for one in Results(out).figures() if one.status.startswith(CUT)]
            print(f"kill {kills} of {KILLS}: {len(now)} figures; waited for {waits}", flush=True)
            seen, process = now, started(out)
        process.wait()
        check(out, seen, process.returncode, (tmp_path / "output").read_text(encoding="utf-8"))
    assert files() == before


def check(out: Path, seen: dict[tuple[str, str], Figure], code: int, output: str) -> None:
    """Check that the last call measured all stages, kept the figures of the calls before it, and left no other file."""
    print(f"complete: {len(seen)} figures seen before the last kill", flush=True)
    assert code == 0, output
    final = Results(out).figures()
    assert seen.items() <= measured(out).items()
    assert {figure.stage for figure in final} == {figure.stage for figure in final if figure.status == "complete"}
    assert {figure.stage for figure in final} == set(STAGES)
    assert not [figure for figure in final if figure.failed or figure.status.startswith("not measured")]
    shown = table(final)
    assert shown in output
    assert shown == (out / "gpu.md").read_text(encoding="utf-8").strip()
    for stage, what in seen:
        assert what == WHOLE or f"| {stage} | {what} | " in shown
    assert {path.name for path in out.iterdir()} == {"gpu.jsonl", "gpu.md", "gpu.log", "work"}
    assert not list((out.parent / "temporary").iterdir())
