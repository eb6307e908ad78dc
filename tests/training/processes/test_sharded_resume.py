"""Resume with another number of processes and another form of `trainer.shard`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.processes.sharded_resume import go_on_all
from tests.training.processes.torchrun import forked
from tests.training.tiny_trainer import curve
from training.checkpoints.summary import WEIGHTS
from training.processes.single_process import SINGLE

SCRIPT = Path(__file__).with_name("sharded_resume.py")
CHAINS = {"from-zero-to-fsdp": ("optimizer", "weights"), "from-fsdp-to-zero": ("weights", "optimizer")}
"""Forms in 2 and then in 4 processes; one process then ends the run."""


@pytest.mark.long
def test_a_run_continues_with_another_number_of_processes_and_another_form(tmp_path: Path) -> None:
    """Guards against shares that a checkpoint mixes up or loses (weights, moments, momentum, average, step counts),
    against rows that ZeRO cuts (width 36 is no multiple of the layout's unit; of 4 processes the last has none),
    against an evaluation of other weights than in a single process, and against early weights of one process alone. 3
    micro-batches per step are shared unevenly."""
    runs = tmp_path / "runs"
    runs.mkdir()
    for processes, phase, steps in ((2, 0, 3), (4, 1, 6)):
        forms = [f"{name}={shards[phase]}" for name, shards in CHAINS.items()]
        done = forked(processes, SCRIPT, str(runs), str(steps), *forms, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    go_on_all(runs, 9, ["straight=none", *(f"{name}=none" for name in CHAINS)], SINGLE)
    for task in ("gpt", "translate"):
        straight = curve(runs / f"straight-{task}" / "metrics.jsonl")
        assert [line["step"] for line in straight] == [3, 6, 9]
        for name in CHAINS:
            result = curve(runs / f"{name}-{task}" / "metrics.jsonl")
            assert result == [pytest.approx(line, rel=1e-6) for line in straight], (name, task)
            early = [runs / f"{each}-{task}" / "checkpoints" / "weights-00000000" for each in ("straight", name)]
            assert early[1].joinpath(WEIGHTS).read_bytes() == early[0].joinpath(WEIGHTS).read_bytes()
