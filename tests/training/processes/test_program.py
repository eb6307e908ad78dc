"""train.py in several processes: the same run as in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import ROOT, TINY, environment
from tests.training.processes.torchrun import forked

TRAIN = ROOT / "train.py"

RECIPES = {
    "gpt": ["data=text", "data.path=book.txt", "tokenizer=char", "trainer.ema=0.9"],
    "translate": ["task=translate", "model.dropout=0", "trainer.evaluate_sentences=30", "data.batch_tokens=256"],
}
"""With shares of several epochs: the last batch of an epoch of pairs is smaller."""

STRAIGHT = [
    *TINY,
    "schedule=constant",
    "trainer.accumulate=4",
    "trainer.evaluate_every=1000",
    "trainer.precision=float32",
]


def losses(run: Path) -> list[float]:
    """Return the loss of every step, from TensorBoard's files."""
    return [point.value for point in EventAccumulator(str(run)).Reload().Scalars("loss")]


def metrics(run: Path) -> list[dict]:
    """Return the numbers of metrics.jsonl that do not depend on a clock."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{key: line[key] for key in line if key not in ("seconds", "tokens_per_second")} for line in lines]


@pytest.mark.long
@pytest.mark.parametrize("task", RECIPES)
def test_resume_with_other_process_counts_matches_one_process(task: str, tmp_path: Path, book: Path) -> None:
    """Guards against processes that train on the same batches, average their losses wrongly, write over each other or
    depend on their number: 20 steps in two processes, 15 in three, 15 in one, against 50 in one; evaluations and test
    results are compared too."""
    settings = [*STRAIGHT, *RECIPES[task]]
    done = subprocess.run(
        [sys.executable, str(TRAIN), *settings, "trainer.steps=50", "name=one"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for processes, steps in ((2, 20), (3, 35), (1, 50)):
        which = [*settings, "name=several"] if steps == 20 else ["resume=runs/several"]
        done = forked(processes, TRAIN, *which, f"trainer.steps={steps}", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"finished at step {steps}") == 1
    one, several = tmp_path / "runs" / "one", tmp_path / "runs" / "several"
    assert len(losses(one)) == 50
    assert losses(several) == pytest.approx(losses(one), rel=1e-6)
    assert metrics(several)[-1] == pytest.approx(
        metrics(one)[-1] | {"train/loss": metrics(several)[-1]["train/loss"]}, rel=1e-6
    )
    ours, theirs = (json.loads((run / "test.json").read_text(encoding="utf-8")) for run in (several, one))
    assert ours.keys() == theirs.keys()
    for name in sorted(one.glob("translations.*.tsv")):
        assert (several / name.name).read_bytes() == name.read_bytes()


@pytest.mark.long
def test_micro_batches_are_divided_as_evenly_as_possible(tmp_path: Path, book: Path) -> None:
    """Guards against processes that wait forever for one without a micro-batch, and a new run in which some never have
    one."""
    settings = [*STRAIGHT, *RECIPES["gpt"], "trainer.steps=3", "trainer.test=false"]
    done = forked(3, TRAIN, *settings, "name=uneven", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = forked(3, TRAIN, *settings, "trainer.accumulate=1", "name=raised", folder=tmp_path)
    assert "trainer.accumulate=3 (was 1)" in done.stdout, done.stderr
    assert "accumulate: 3\n" in (tmp_path / "runs" / "raised" / "config.yaml").read_text(encoding="utf-8")
    done = forked(2, TRAIN, "resume=runs/raised", "trainer.accumulate=1", "trainer.steps=4", folder=tmp_path)
    assert "some have no work" in done.stdout, done.stderr
    assert len(losses(tmp_path / "runs" / "raised")) == 4
