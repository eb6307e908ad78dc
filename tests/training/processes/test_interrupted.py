"""Runs of several processes with dropout that are interrupted at random are the straight run to the last bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest
from safetensors.torch import load_file

from tests.conftest import ROOT, TINY, environment
from tests.training.processes.test_program import RECIPES, metrics
from training.checkpoints.summary import WEIGHTS

TRAIN = ROOT / "train.py"

SETTINGS = [
    *TINY,
    "model.dropout=0.1",
    "trainer.steps=24",
    "trainer.test=false",
    "trainer.limit_evaluations=false",
    "trainer.early_weights=true",
]

KINDS = {
    2: [*RECIPES["gpt"], "trainer.accumulate=3", "trainer.shard=optimizer"],
    4: ["task=translate", "data.batch_tokens=128", "trainer.accumulate=4", "trainer.samples=0"],
}
"""By number of processes; with 3 micro-batches for 2 processes, one of them draws more random numbers."""

INTERRUPTIONS = 2


def launched(processes: int, folder: Path, *arguments: str, after: int = 0, number: int = 0) -> tuple[int, str]:
    """Train in several processes; send a signal to all of them at the line of a step >= `after` -> code, output."""
    launch = [sys.executable, "-u", "-m", "tests.training.processes.launcher", str(processes), str(TRAIN), *arguments]
    process = subprocess.Popen(
        launch,
        cwd=folder,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    patience = Timer(900, os.killpg, [process.pid, signal.SIGKILL])
    patience.start()
    seen = ""
    for line in process.stdout:
        seen += line
        if number and line.startswith("step ") and int(line.removeprefix("step ").partition("/")[0]) >= after:
            os.killpg(process.pid, number)
            number = 0
    patience.cancel()
    return process.wait(), seen


def ends(run: Path) -> dict[str, dict[str, bytes]]:
    """Return the weights of the last step, and of the early steps, without the metadata of the files."""
    files = [run / "checkpoints" / "last" / WEIGHTS, *run.glob(f"checkpoints/weights-*/{WEIGHTS}")]
    return {
        path.parent.name: {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()} for path in files
    }


@pytest.mark.long
@pytest.mark.parametrize("processes", KINDS)
def test_a_run_that_is_interrupted_at_random_is_the_straight_one(processes: int, tmp_path: Path, book: Path) -> None:
    """Guards against random numbers of some process that a save, an evaluation or a resume changes: the straight run is
    evaluated only at its end."""
    settings = [*SETTINGS, *KINDS[processes]]
    code, output = launched(processes, tmp_path, *settings, "trainer.evaluate_every=24", "name=straight")
    assert code == 0, output
    chance, which = random.Random(processes), [*settings, "trainer.evaluate_every=8", "name=often"]
    for step in sorted(chance.sample(range(2, 20), INTERRUPTIONS)):
        number = chance.choice([signal.SIGTERM, signal.SIGKILL])
        code, output = launched(processes, tmp_path, *which, after=step, number=number)
        assert code == -number, output
        assert ("continue with resume=" in output) == (number == signal.SIGTERM), output
        if list(tmp_path.glob("runs/often/checkpoints/step-*")):
            which = ["resume=runs/often"]
    code, output = launched(processes, tmp_path, *which)
    assert code == 0, output
    assert ends(tmp_path / "runs" / "often") == ends(tmp_path / "runs" / "straight")
    (last,) = metrics(tmp_path / "runs" / "straight")
    result = metrics(tmp_path / "runs" / "often")
    assert [line["step"] for line in result] == [8, 16, 24]
    assert result[-1] | {"train/loss": 0} == last | {"train/loss": 0}
