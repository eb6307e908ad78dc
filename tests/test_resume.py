"""Interrupted runs: a resumed run continues bit for bit like an uninterrupted run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import ROOT, TINY, environment
from training.run_folder.earlier_curves import EarlierPoints

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TIMES = ("seconds", "tokens_per_second")

RECIPES = {
    "gpt": [
        "data=text",
        "data.path=book.txt",
        "tokenizer=char",
        "trainer.accumulate=2",
        "model.token_shift=true",
        "trainer.ema=0.9",
        "trainer.steps=160",
    ],
    "translate": [
        "task=translate",
        "optim=scion",
        "model.tie_embeddings=false",
        "trainer.steps=100",
        "data.both_directions=true",
        "trainer.guided_alignment=0.3",
    ],
}


def curve(run: Path) -> list[dict]:
    """Return metrics.jsonl without the measured times."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in TIMES} for line in lines]


def start_and_stop(folder: Path, arguments: list[str], after: str, number: int) -> tuple[int, str]:
    """Start train.py and send a signal once its output contains `after` -> exit code and the rest of the output."""
    process = subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "train.py"), *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if line.startswith(after):
            os.kill(process.pid, number)
            break
    rest = process.stdout.read()
    return process.wait(timeout=60), seen + rest


@pytest.mark.parametrize(("task", "number"), [("gpt", signal.SIGTERM), ("translate", signal.SIGINT)])
def test_resume_after_signal_is_bit_exact(
    task: str, number: signal.Signals, program: Run, book: Path, tmp_path: Path
) -> None:
    """Guards against state that is missing from the checkpoint: random numbers, data position across epochs, weight
    average, moments."""
    recipe = [
        *TINY,
        *RECIPES[task],
        "model.dropout=0.1",
        "trainer.evaluate_every=20",
        "trainer.limit_evaluations=false",  # also on a busy machine
        "trainer.test=false",
        "name=straight",
    ]
    straight = program("train.py", *recipe)
    assert straight.returncode == 0, straight.stderr
    code, output = start_and_stop(tmp_path, [*recipe[:-1], "name=stopped"], "step 22/", number)
    assert code == 128 + number, output
    assert f"{number.name}: saved step" in output
    stopped = tmp_path / "runs" / "stopped"
    saved = int((stopped / "checkpoints" / "last").resolve().name.removeprefix("step-"))
    assert 22 <= saved < 60
    assert saved % 20, "the point is a stop between evaluations"
    resumed = program("train.py", "resume=runs/stopped")
    assert resumed.returncode == 0, resumed.stderr
    assert curve(stopped) == curve(tmp_path / "runs" / "straight")
    assert curve(stopped)[-1]["epoch"] > 1, "the point is a resume across an epoch's end"


def test_a_kill_without_warning_resumes_from_the_last_evaluation(program: Run, book: Path, tmp_path: Path) -> None:
    """Guards against duplicate metrics of steps that are repeated after the resume, and early weights that differ."""
    recipe = [*TINY, *RECIPES["gpt"], "trainer.evaluate_every=20", "trainer.test=false", "trainer.steps=80"]
    recipe += ["trainer.early_weights=true", "trainer.limit_evaluations=false"]  # also on a busy machine
    code, output = start_and_stop(tmp_path, [*recipe, "name=killed"], "step 67/", signal.SIGKILL)
    assert code == -signal.SIGKILL, output
    resumed = program("train.py", "resume=runs/killed")
    assert resumed.returncode == 0, resumed.stderr
    assert "are dropped" not in resumed.stdout, "no checkpoint is later"
    assert [line["step"] for line in curve(tmp_path / "runs" / "killed")] == [20, 40, 60, 80]
    straight = program("train.py", *recipe, "name=straight")
    assert straight.returncode == 0
    assert curve(tmp_path / "runs" / "killed") == curve(tmp_path / "runs" / "straight")
    killed, expected = (
        {str(path.relative_to(run)): path.read_bytes() for path in run.glob("checkpoints/weights-*/*")}
        for run in (tmp_path / "runs" / "killed", tmp_path / "runs" / "straight")
    )
    assert killed == expected
    assert len(killed) == 2 * len(["0", "16", "64"])


def test_resume_says_what_changed_and_refuses_what_would_be_another_run(
    in_process: Run, book: Path, tmp_path: Path
) -> None:
    """Guards against `resume=… model.width=…` that trains a different model under the old name, and a finished run that
    appears to do nothing."""
    recipe = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.test=false", "name=run"]
    assert in_process("train.py", *recipe).returncode == 0
    done = in_process("train.py", "resume=runs/run")
    assert done.returncode == 0
    assert "already at step 6" in done.stdout
    refused = in_process("train.py", "resume=runs/run", "model.width=64", "data=pairs")
    assert refused.returncode == 2
    assert "model.width: cannot change on resume" in refused.stderr
    assert "data: cannot change on resume" in refused.stderr
    longer = in_process("train.py", "resume=runs/run", "trainer.steps=9")
    assert longer.returncode == 0, longer.stderr
    assert "trainer.steps=9 (was 6)" in longer.stdout
    assert [line["step"] for line in curve(tmp_path / "runs" / "run")] == [3, 6, 9]


def test_init_from_takes_shape_and_tokenizer_over_and_refuses_contradictions(
    in_process: Run, book: Path, tmp_path: Path
) -> None:
    """Guards against weights used with a different activation or tokenizer of the same shape, which gives meaningless
    output."""
    recipe = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.test=false"]
    assert in_process("train.py", *recipe, "model.activation=gelu", "name=first").returncode == 0
    plain = [setting for setting in recipe if not setting.startswith(("model.", "tokenizer"))]
    done = in_process("train.py", *plain, "init_from=runs/first", "name=second")
    assert done.returncode == 0, done.stderr
    saved = OmegaConf.load(tmp_path / "runs" / "second" / "config.yaml")
    assert (saved.model.activation, saved.model.width, saved.tokenizer.kind) == ("gelu", 32, "char")
    refused = in_process("train.py", *plain, "init_from=runs/first", "model.activation=relu2", "tokenizer=bpe")
    assert refused.returncode == 2
    assert "model.activation=relu2: init_from=runs/first was trained with model.activation=gelu" in refused.stderr
    assert "tokenizer.kind=bpe" in refused.stderr
    resumed = in_process("train.py", "resume=runs/second", "trainer.steps=7")
    assert resumed.returncode == 0, resumed.stderr


def test_the_command_that_began_a_run_may_be_repeated_with_resume(in_process: Run, book: Path, tmp_path: Path) -> None:
    """Guards against `resume` that rejects unchanged values, a best loss on other data that hides all later losses, and
    a position in the old data that skips a part of the new ones."""
    recipe = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.test=false", "name=run"]
    assert in_process("train.py", *recipe).returncode == 0
    repeated = [setting for setting in recipe if not setting.startswith("trainer.steps")]
    done = in_process("train.py", *repeated, "resume=runs/run", "trainer.steps=9")
    assert done.returncode == 0, done.stderr
    (tmp_path / "other.txt").write_text((tmp_path / "book.txt").read_text(encoding="utf-8")[::-1], encoding="utf-8")
    moved = in_process("train.py", "resume=runs/run", "data.path=other.txt", "trainer.steps=12")
    assert moved.returncode == 0, moved.stderr
    assert "the training data have changed: the epoch begins anew" in moved.stdout
    epochs = {line["step"]: line["epoch"] for line in curve(tmp_path / "runs" / "run")}
    assert epochs[3] < epochs[6] < epochs[9] < 1, "the point is a change within an epoch"
    assert epochs[12] == pytest.approx(epochs[3], rel=0.1)
    best = (tmp_path / "runs" / "run" / "checkpoints" / "best").resolve().name
    assert best == "step-00000012"


def test_a_last_evaluation_that_was_interrupted_is_made_up_for(in_process: Run, book: Path, tmp_path: Path) -> None:
    """Guards against a run that counts as finished although its last evaluation was interrupted, without its last
    metrics and without `best`."""
    recipe = [
        *TINY,
        *RECIPES["gpt"],
        "trainer.steps=60",
        "trainer.evaluate_every=60",
        "trainer.test=false",
        "name=late",
    ]
    code, output = start_and_stop(tmp_path, recipe, "step 60/60", signal.SIGTERM)
    assert code == 128 + signal.SIGTERM, output
    assert in_process("train.py", "resume=runs/late").returncode == 0
    assert [line["step"] for line in curve(tmp_path / "runs" / "late")] == [60]
    assert (tmp_path / "runs" / "late" / "checkpoints" / "best").exists()


def test_a_run_killed_before_its_last_words_says_them_on_resume(in_process: Run, book: Path, tmp_path: Path) -> None:
    """Guards against a Text tab without the summary of a finished run, because a kill came between the last evaluation
    and the summary."""
    recipe = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.test=false", "name=run"]
    assert in_process("train.py", *recipe).returncode == 0
    run = tmp_path / "runs" / "run"
    EarlierPoints(run, 6).delete({("about/text_summary", 6)})
    assert in_process("train.py", "resume=runs/run").returncode == 0
    events = EventAccumulator(str(run)).Reload()
    assert [event.step for event in events.Tensors("about/text_summary")] == [0, 6]
