"""A run folder that is renamed or deleted while the run is trained: nothing is lost, and nothing is left half-made."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import TINY, Run
from training.checkpoints.moved_folder import Place
from training.checkpoints.summary import checkpoint_step

ENDLESS = [*TINY, "trainer.steps=1000000", "trainer.test=false", "name=a"]
FIRST_STEPS, FIRST_CHECKPOINT = "step 5/", "validation at step"
"""What the log says first: of a run that has no checkpoint yet, or that has one."""


def meanwhile(run: Path, sign: str, change: Callable[[], None]) -> threading.Thread:
    """Change something as soon as the log has the sign."""

    def wait() -> None:
        deadline, log = time.monotonic() + 120, run / "log.txt"
        while not (log.exists() and sign in log.read_text("utf-8")) and time.monotonic() < deadline:
            time.sleep(0.01)
        change()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("sign", "every", "replaced"), [(FIRST_STEPS, 1000, False), (FIRST_STEPS, 1000, True), (FIRST_CHECKPOINT, 3, True)]
)
def test_a_run_that_is_renamed_is_saved_under_its_new_name(
    in_process: Run, tmp_path: Path, sign: str, every: int, replaced: bool
) -> None:
    """Guards against checkpoints that go into a new folder without a config, or into another run of the old name, and
    against the loss of the steps since the last one."""
    old, new = tmp_path / "runs" / "a", tmp_path / "runs" / "b"

    def rename() -> None:
        old.rename(new)
        if replaced:
            old.mkdir()

    thread = meanwhile(old, sign, rename)
    done = in_process("train.py", *ENDLESS, f"trainer.evaluate_every={every}")
    thread.join()
    step = checkpoint_step(new / "checkpoints" / "last")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    said = f"step {step} is saved there; continue with resume=runs/b"
    assert errors == [f"error: runs/a: was moved to runs/b while it was trained: {said}"]
    assert done.returncode == 2
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.name != "b"] == ["a"] * replaced
    assert not replaced or not list(old.iterdir())
    assert not list(new.rglob("*.tmp*"))
    resumed = in_process("train.py", "resume=runs/b", f"trainer.steps={step + 2}")
    assert resumed.returncode == 0, resumed.stderr
    assert f"step {step + 2}" in resumed.stdout


def test_a_run_that_is_deleted_ends(in_process: Run, tmp_path: Path) -> None:
    """Guards against a run that comes back as a folder with checkpoints alone."""
    run = tmp_path / "runs" / "a"

    def delete() -> None:
        while run.exists():  # training writes while the files are deleted
            with suppress(OSError):
                shutil.rmtree(run)

    thread = meanwhile(run, FIRST_CHECKPOINT, delete)
    done = in_process("train.py", *ENDLESS)
    thread.join()
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: runs/a: was deleted, or moved to another disk, while it was trained: training")
    assert done.returncode == 2
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_is_left_only_if_its_name_leads_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a run that ends although nobody has touched it: opened through a link, or on a network file system
    that numbers its folders anew."""
    (tmp_path / "disk" / "a").mkdir(parents=True)
    (tmp_path / "runs").symlink_to("disk")
    place = Place(tmp_path / "runs" / "a")
    assert not place.is_left()
    monkeypatch.setattr(os.path, "samestat", lambda one, other: False)
    monkeypatch.setattr(Place, "now", lambda self: tmp_path / "disk" / "a")
    assert not place.is_left()
    monkeypatch.undo()
    (tmp_path / "disk").rename(tmp_path / "other")
    assert place.is_left()
    assert place.now() == tmp_path / "other" / "a"
    (tmp_path / "other" / "a").rmdir()
    assert place.now() is None
    place.close()
    assert not Place(tmp_path / "nowhere").is_left()
