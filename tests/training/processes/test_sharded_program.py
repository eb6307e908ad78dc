"""train.py with weights divided among processes: evaluation, translation, maps, test, generation and resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from run import Run
from tests.conftest import ROOT
from tests.training.processes.test_program import RECIPES, STRAIGHT, losses, metrics
from tests.training.processes.torchrun import forked

TRAIN = ROOT / "train.py"


def names(folder: Path) -> set[str]:
    """Return the names of the files in a folder, except those of TensorBoard, which contain the time."""
    return {path.name for path in folder.iterdir() if "tfevents" not in path.name}


@pytest.mark.long
def test_a_run_with_divided_weights_is_the_run_of_one_process(tmp_path: Path) -> None:
    """Guards against a resume that loses the loaded state, an evaluation, translation or map of empty or wrong weights,
    processes that wait for each other where only one works, and a run folder that cannot be read."""
    settings = [*STRAIGHT, *RECIPES["translate"], "optim=muon", "trainer.evaluate_every=4", "trainer.ema=0.9"]
    settings += ["trainer.guided_alignment=0.3", "attention.every=0"]  # otherwise recordings follow the clock
    begun = [*settings, "trainer.shard=optimizer", "trainer.steps=4", "trainer.test=false", "name=several"]
    resumed = ["trainer.shard=weights", "trainer.recompute=true", "trainer.steps=8", "trainer.test=true"]
    for which in (begun, ["resume=runs/several", *resumed]):
        done = forked(2, TRAIN, *which, folder=tmp_path)
        assert done.returncode == 0, done.stderr

    done = forked(1, TRAIN, *settings, "trainer.steps=8", "name=one", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    one, several = tmp_path / "runs" / "one", tmp_path / "runs" / "several"
    assert losses(several) == pytest.approx(losses(one), rel=1e-6)
    assert metrics(several) == [pytest.approx(line, rel=1e-6) for line in metrics(one)]
    tests = [json.loads((run / "test.json").read_text(encoding="utf-8")) for run in (one, several)]
    assert tests[1] == pytest.approx(tests[0], rel=1e-4)
    for folder in ("attention", "."):
        assert names(one / folder) == names(several / folder)
    weights = [Run(run).model.state_dict() for run in (one, several)]
    for name, expected in weights[0].items():
        torch.testing.assert_close(weights[1][name], expected, rtol=0, atol=1e-4)
