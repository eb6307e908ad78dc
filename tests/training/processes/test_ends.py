"""How a launch of torchrun ends: errors, signals and killed workers."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from threading import Timer

import pytest

from tests.conftest import ROOT, TINY, environment
from tests.training.processes.test_program import RECIPES, metrics
from tests.training.processes.torchrun import command, forked, torchrun

TRAIN = ROOT / "train.py"

SETTINGS = [
    *TINY,
    *RECIPES["gpt"],
    "model.dropout=0.1",
    "trainer.accumulate=2",
    "trainer.test=false",
    "trainer.limit_evaluations=false",
]


def workers(launcher: int) -> list[int]:
    """Return the process ids of torchrun's workers, the first process first."""
    result = subprocess.run(["ps", "--ppid", str(launcher), "-o", "pid="], capture_output=True, text=True, check=False)
    ids = list(map(int, result.stdout.split()))
    ranks = {pid: (Path("/proc") / str(pid) / "environ").read_bytes() for pid in ids}
    return [pid for rank in range(len(ids)) for pid in ids if b"\0RANK=%d\0" % rank in ranks[pid]]


def disturbed(
    folder: Path, *arguments: str, after: str, worker: int | None, number: signal.Signals, options: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Send a signal to one of two workers, or to torchrun (None), once a line starts with `after` -> code, output."""
    process = subprocess.Popen(
        command(2, TRAIN, *arguments, options=options),
        cwd=folder,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    patience = Timer(180, process.send_signal, [signal.SIGQUIT])  # torchrun then ends all without saving
    patience.start()
    seen = ""
    for line in process.stdout:
        seen += line
        if line.startswith(after):
            os.kill(process.pid if worker is None else workers(process.pid)[worker], number)
            break
    seen += process.stdout.read()
    patience.cancel()
    return process.wait(timeout=60), seen


@pytest.mark.long
def test_an_error_of_the_user_is_one_message(tmp_path: Path, book: Path) -> None:
    """Guards against a message for each process and each restart, and against processes that wait for the one that has
    failed: the error of a setting, of the data, and one that only one process has."""
    for wrong, message in (
        (["trainer.steps=abc"], "trainer.steps=abc"),
        (["data=text", "data.path=none.txt"], "data.path=none.txt: no such file"),
        (["-m", "seed=1,2"], "a sweep trains with one process"),
    ):
        restarts = int(wrong == ["trainer.steps=abc"])
        done = torchrun(2, TRAIN, *SETTINGS, *wrong, folder=tmp_path, options=(f"--max-restarts={restarts}",))
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert done.returncode == 1
        assert len(errors) == 1, done.stderr
        assert message in errors[0]
        assert "exitcode  : 2" in done.stderr
    assert not list(tmp_path.glob("runs/*")), "nothing is written"


@pytest.mark.slow
@pytest.mark.parametrize("worker", [None, 1])
def test_signal_to_torchrun_or_worker_saves_once(worker: int | None, tmp_path: Path, book: Path) -> None:
    """Guards against work lost when a node is preempted, a restart of what was told to stop, and workers that stay
    behind."""
    code, output = disturbed(
        tmp_path,
        *SETTINGS,
        "trainer.steps=100000",
        "trainer.evaluate_every=100000",
        "name=stopped",
        after="step 9/",
        worker=worker,
        number=signal.SIGTERM,
        options=("--max-restarts=1",),
    )
    assert code == 1
    assert output.count("SIGTERM: saved step ") == 1, output
    assert output.count("continue with resume=runs/stopped") == 1
    log = (tmp_path / "runs" / "stopped" / "log.txt").read_text(encoding="utf-8")
    assert log.count("SIGTERM: saved step ") == 1
    assert "restart 1" not in log
    assert len(list((tmp_path / "runs" / "stopped" / "checkpoints").glob("step-*"))) == 1


@pytest.mark.long
def test_killed_worker_is_restarted_bit_exactly(tmp_path: Path, book: Path) -> None:
    """Guards against a restarted command that finds the name of its run taken, or begins again; the dropout masks of
    all processes are compared too, since the curves must be equal to the last bit."""
    settings = [*SETTINGS, "trainer.steps=60", "trainer.evaluate_every=20"]
    straight = forked(2, TRAIN, *settings, "name=straight", folder=tmp_path)
    assert straight.returncode == 0, straight.stderr
    for worker in (0, 1):
        name = f"killed-{worker}"
        code, output = disturbed(
            tmp_path,
            *settings,
            f"name={name}",
            after="step 23/",
            worker=worker,
            number=signal.SIGKILL,
            options=("--max-restarts=1",),
        )
        assert code == 0, output
        assert "torchrun has restarted the processes (restart 1)" in output
        assert output.count("step 20/60") == 1, "resumed from the checkpoint of step 20"
        assert output.count("step 21/60") == 2
        assert metrics(tmp_path / "runs" / name) == metrics(tmp_path / "runs" / "straight")
    assert not list(tmp_path.glob("runs/.torchrun*"))


@pytest.mark.long
def test_worker_killed_before_first_checkpoint_restarts_in_same_folder(tmp_path: Path, book: Path) -> None:
    """Guards against a second run folder, or an error, after a restart without a checkpoint; here without `name=`."""
    code, output = disturbed(
        tmp_path,
        *SETTINGS,
        "trainer.steps=20",
        "trainer.evaluate_every=20",
        after="step 5/",
        worker=1,
        number=signal.SIGKILL,
        options=("--max-restarts=1",),
    )
    assert code == 0, output
    assert [path.name for path in tmp_path.glob("runs/*")] == ["gpt-text"]
    assert [line["step"] for line in metrics(tmp_path / "runs" / "gpt-text")] == [20]


@pytest.mark.long
def test_a_worker_killed_during_an_evaluation_is_restarted(tmp_path: Path) -> None:
    """Guards against taking the SIGTERM with which torchrun stops the remaining worker for a request to stop, which
    excludes a restart, and a resume without the loaded weights; with divided weights, whose exchanges fail in other
    places."""
    settings = [*TINY, "task=translate", "data.sentences=4000", "trainer.evaluate_sentences=80", "trainer.test=false"]
    code, output = disturbed(
        tmp_path,
        *settings,
        "trainer.steps=8",
        "trainer.evaluate_every=4",
        "trainer.limit_evaluations=false",
        "trainer.shard=weights",
        "name=killed",
        after="step 4/",
        worker=1,
        number=signal.SIGKILL,
        options=("--max-restarts=1",),
    )
    assert code == 0, output
    assert "Traceback" not in output
    assert "torchrun has restarted the processes (restart 1)" in output
    assert [line["step"] for line in metrics(tmp_path / "runs" / "killed")] == [4, 8]
    assert not list(tmp_path.glob("runs/.torchrun*"))
