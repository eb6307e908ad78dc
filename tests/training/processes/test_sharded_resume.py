"""Resume with another number of processes and another form of `trainer.shard`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.processes.torchrun import torchrun
from tests.training.tiny_trainer import curve

SCRIPT = Path(__file__).with_name("sharded_resume.py")
CHAINS = {
    "zero": ("optimizer", "optimizer"),
    "fsdp": ("weights", "weights"),
    "from-zero-to-fsdp": ("optimizer", "weights"),
    "from-fsdp-to-all": ("weights", "none"),
}
"""Forms in 2 and then in 4 processes; one process then ends the run."""


def train(processes: int, forms: dict[str, str], steps: int, runs: Path) -> None:
    """Train both tasks until `steps`, in run folders named after `forms`."""
    arguments = [f"{name}={shard}" for name, shard in forms.items()]
    done = torchrun(processes, SCRIPT, str(runs), str(steps), *arguments, folder=runs.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_continues_with_another_number_of_processes_and_another_form(tmp_path: Path) -> None:
    """Guards against shares that a checkpoint mixes up or loses (weights, moments, momentum, average, step counts), and
    against an evaluation of other weights than in a single process. 3 micro-batches per step are shared unevenly."""
    runs = tmp_path / "runs"
    runs.mkdir()
    for processes, phase, steps in ((2, 0, 3), (4, 1, 6)):
        train(processes, {name: forms[phase] for name, forms in CHAINS.items()}, steps, runs)
    train(1, {"straight": "none", **dict.fromkeys(CHAINS, "none")}, 9, runs)
    for task in ("gpt", "translate"):
        straight = curve(runs / f"straight-{task}" / "metrics.jsonl")
        assert [line["step"] for line in straight] == [3, 6, 9]
        for name in CHAINS:
            found = curve(runs / f"{name}-{task}" / "metrics.jsonl")
            assert found == [pytest.approx(line, rel=1e-6) for line in straight], (name, task)
