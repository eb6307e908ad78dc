"""Faults of the file system that no test can produce otherwise, injected into the system calls of a real run by strace:
a quota, a disk that becomes read-only or fails, no locks, no symbolic links."""

import errno
import os
from pathlib import Path

import pytest

from tests.conftest import TINY, Run
from tests.robustness.crash_states.trace import can_trace
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import checkpoint_step

pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is not installed (make strace), or not permitted")

RECIPE = [*TINY, "data=text", "data.path=book.txt", "tokenizer=char", "trainer.test=false", "attention=off", "name=run"]


def failing(calls: str, error: str, path: Path | None = None, when: str = "1+") -> list[str]:
    """Return the command in front of a program whose system calls (on one path) return an error; `when`: which ones."""
    only = [] if path is None else ["-P", str(path)]
    return ["strace", "-f", "-qqq", "-o", "/dev/null", *only, "-e", f"inject={calls}:error={error}:when={when}"]


@pytest.mark.parametrize(("calls", "error"), [("write", "EDQUOT"), ("mkdir", "EROFS"), ("fsync", "EIO")])
def test_training_continues_after_disk_faults(calls: str, error: str, program: Run, book: Path) -> None:
    """Guards against a run that ends, or loses its last good checkpoint, because one cannot be written: quota, a disk
    that became read-only, a disk that fails."""
    run, partial = book.parent / "runs" / "run", Path("runs/run/checkpoints/.tmp-step-00000003")
    faulty = partial if calls == "mkdir" else book.parent / partial / "state.pt"  # as strace sees it
    done = program("train.py", *RECIPE, before=failing(calls, error, faulty))
    assert done.returncode == 0, done.stderr
    reason = os.strerror(getattr(errno, error))
    assert f"warning: the checkpoint of step 3 could not be saved ({reason}); training continues, next" in done.stdout
    assert "step 6 is saved: the disk is writable again" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert [path.name for path in (run / "checkpoints").glob("*step*")] == ["step-00000006"]


def test_a_file_system_without_locks_is_named(program: Run, book: Path) -> None:
    """Guards against a traceback on a network share."""
    lock = book.parent / "runs" / "run" / ".lock"
    done = program("train.py", *RECIPE, before=failing("flock", "ENOLCK", lock))
    assert done.returncode == 2, done.stdout
    reason = "cannot be locked (No locks available)"
    assert done.stderr == f"error: runs/run: {reason}; choose another folder with runs=…\n"


def test_a_file_system_that_does_not_know_locks_gets_lock_files(program: Run, book: Path) -> None:
    """Guards against a run that cannot be trained or resumed on a file system without flock."""
    before = failing("flock", "ENOSYS")
    assert program("train.py", *RECIPE, before=before).returncode == 0
    again = program("train.py", "resume=runs/run", "trainer.steps=8", before=before)
    assert again.returncode == 0, again.stderr
    assert checkpoint_step(checkpoint_path(book.parent / "runs" / "run")) == 8
