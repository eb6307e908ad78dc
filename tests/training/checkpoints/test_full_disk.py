"""A disk that is full, for a while or until the end: training continues, and no existing file is lost."""

import errno
import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from configs.errors import UserError
from data.batches.batch import Batch
from tests.conftest import TINY, Run
from tests.training.tiny_trainer import Listed, pairs, trainer
from training.checkpoints.files import load_state, load_weights, write_state
from training.checkpoints.folder import NotSaved, save_checkpoint
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import checkpoint_step
from training.run_folder.log import RunLog
from training.trainer import Evaluate, Trainer


class Disk:
    """A small file system that can be filled to the last byte."""

    refusal = os.strerror(errno.ENOSPC)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.filler = path / "filler"

    def fill(self) -> None:
        """Fill the disk."""
        with self.filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        assert shutil.disk_usage(self.path).free == 0

    def free(self) -> None:
        """Free the space."""
        self.filler.unlink(missing_ok=True)


class Limit(Disk):
    """A file size limit of a megabyte or zero, if no file system can be mounted."""

    refusal = os.strerror(errno.EFBIG)

    def set(self, size: int) -> None:
        """Set the maximum file size in bytes."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    def fill(self) -> None:
        """Forbid all writing."""
        self.set(0)

    def free(self) -> None:
        """Permit writing again."""
        self.set(1 << 20)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A real file system of one megabyte, or a limit if it cannot be mounted; tests/conftest.py resets the limit."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        limit = Limit(path)
        limit.free()
        yield limit
        return
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", path], check=True)


def train(each: Trainer, folder: Path, evaluate: Evaluate) -> None:
    """Train in `folder` with a given validation loss."""
    folder.mkdir(exist_ok=True)
    log = RunLog(folder, 0)
    try:
        each.train(folder, log, evaluate)
    finally:
        log.close()


def whole_checkpoints(folder: Path) -> list[int]:
    """Return the steps that can be loaded; there may be no other files."""
    result = [path for path in (folder / "checkpoints").iterdir() if path.name not in ("last", "best")]
    for checkpoint in result:
        load_weights(checkpoint)
        load_state(checkpoint)
    return sorted(checkpoint_step(checkpoint) for checkpoint in result)


def test_failed_save_keeps_previous_checkpoint(disk: Disk) -> None:
    """Guards against a traceback of safetensors or torch, and disk space occupied by an incomplete checkpoint."""
    folder, weights = disk.path / "checkpoints", {"w": pairs()[0].inputs.float()}
    save_checkpoint(folder, 1, Snapshot(weights, {"s": weights["w"]}), {"step": 1}, keep=0)
    used, large = shutil.disk_usage(disk.path).used, weights["w"].new_zeros(300_000)
    for saved, state in ((large, weights["w"]), (weights["w"], large)):
        with pytest.raises(NotSaved, match=rf"step 2 could not be saved \({disk.refusal}\)"):
            save_checkpoint(folder, 2, Snapshot({"w": saved}, {"s": state}), {"step": 2}, keep=0)
        assert sorted(path.name for path in folder.iterdir()) == ["last", "step-00000001"]
        assert isinstance(disk, Limit) or shutil.disk_usage(disk.path).used == used, "a file left open takes room too"
    assert whole_checkpoints(disk.path) == [1]
    assert checkpoint_step(checkpoint_path(disk.path)) == 1


@pytest.mark.parametrize(
    "size", [10, 10_000, 1_000_000]
)  # refused when the file is closed, by the archive's end, or at once
@pytest.mark.parametrize("name", ["state.pt", "重み.pt"])  # torch opens only names in ASCII itself
def test_what_refuses_a_state_is_named(tmp_path: Path, size: int, name: str) -> None:
    """Guards against `unexpected pos 640 vs 534`, and `is the disk full?` if it is not."""
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        write_state({"s": torch.zeros(size)}, tmp_path / name)


def test_a_failure_that_is_not_of_the_disk_is_not_taken_for_one(tmp_path: Path) -> None:
    """Guards against a failed GPU or a bug reported as a full disk, and training that continues without checkpoints."""

    class Failing:
        def __reduce__(self) -> str:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="CUDA error"):
        save_checkpoint(tmp_path, 1, Snapshot({}, {"s": Failing()}), {"step": 1}, keep=0)


def test_training_continues_on_full_disk_and_writes_later(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against hours of training lost to a full disk, lost or truncated lines, and a warning every second."""
    folder = disk.path / "run"
    each = trainer(pairs(), steps=8, evaluate_every=2, keep=0)

    def evaluate(step: int, record: dict) -> float:
        each.saver.wait()
        if step == 2:
            disk.fill()
        if step == 4:
            assert whole_checkpoints(folder) == [2]
        if step == 6:
            disk.free()
        each.log.line("x" * 5000)  # a page of the file system: what fits into the last one hides a full disk
        return 1.0 / step

    train(each, folder, evaluate)
    assert checkpoint_step(checkpoint_path(folder, "best")) == 8
    assert whole_checkpoints(folder) == [8]
    output = capsys.readouterr().out
    refused = (
        3 if isinstance(disk, Limit) else 2
    )  # log.txt and TensorBoard; metrics.jsonl has room in a page of its own
    assert output.count(f"{disk.refusal}): training continues, the write is retried") == refused
    assert output.count(f"{disk.refusal}); training continues, next attempt in 60 seconds") == 1
    assert output.count("step 6 is saved: the disk is writable again") == 1
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 6, 8]
    log = (folder / "log.txt").read_text(encoding="utf-8")
    assert re.findall(r"^step (\d)/8", log, re.MULTILINE) == list("12345678")
    events = EventAccumulator(str(folder)).Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(1, 9))


def test_a_checkpoint_is_tried_again_before_the_next_evaluation(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an interval of training without a checkpoint because the disk was full for a moment."""
    monkeypatch.setattr("training.checkpoints.saver.RETRY_SECONDS", 0)
    each = trainer(pairs(), steps=9, evaluate_every=8, keep=0)

    class Freeing(Listed):
        def next_batch(self) -> Batch:
            if each.progress.step == 1:
                disk.fill()
                each.saver.retry_at = 0  # as after a failure
            if each.progress.step == 4:
                disk.free()
                each.config.trainer.steps = 5
            return super().next_batch()

    each.stream = Freeing(pairs())
    saved: list[int] = []

    def evaluate(step: int, record: dict) -> float:
        each.saver.wait()
        saved.extend(whole_checkpoints(disk.path / "run"))
        return 1.0

    train(each, disk.path / "run", evaluate)
    assert saved == [5]


def test_early_weights_that_cannot_be_saved_are_a_warning(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against training that ends for want of early weights, half of them, and a retry with those of a later
    step."""
    each = trainer(pairs(), steps=20, evaluate_every=20, keep=0, early_weights=True)

    class Filling(Listed):
        def next_batch(self) -> Batch:
            if each.progress.step == 15:
                disk.fill()
            if each.progress.step == 17:
                each.saver.wait()
                disk.free()
            return super().next_batch()

    each.stream = Filling(pairs())
    folder = disk.path / "run"
    train(each, folder, lambda step, record: 1.0)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        *("best", "last", "step-00000020", "weights-00000000")
    ]
    output = capsys.readouterr().out
    assert (
        output.count(f"warning: the weights of step 16 could not be saved ({disk.refusal}); training continues\n") == 1
    )
    assert "next attempt" not in output
    assert "of step 0 could" not in output


def test_training_on_full_disk_ends_with_one_error_line(disk: Disk) -> None:
    """Guards against exit code 0 if the weights are not saved, and against `best` for a step that was never saved."""
    folder = disk.path / "run"
    each = trainer(pairs(), steps=6, evaluate_every=2, keep=0)

    def evaluate(step: int, record: dict) -> float:
        each.saver.wait()
        if step == 4:
            disk.fill()
        return 1.0 / step

    said = (
        rf"of step-00000004 could not be saved \({disk.refusal}\); the checkpoint of step 4 is kept: continue with"
        r" resume="
    )
    with pytest.raises(UserError, match=said):
        train(each, folder, evaluate)
    assert checkpoint_step(checkpoint_path(folder, "best")) == 2, "that step 4 was better could not be saved"
    assert whole_checkpoints(folder) == [2, 4]


def test_failed_save_exits_with_2_and_can_be_resumed(program: Run, in_process: Run, book: Path) -> None:
    """Guards the same through train.py, with a limit on file sizes instead of a full disk."""
    recipe = [
        *TINY,
        "data=text",
        "data.path=book.txt",
        "tokenizer=char",
        "trainer.test=false",
        "name=run",
        "trainer.keep=0",
    ]
    assert in_process("train.py", *recipe).returncode == 0
    command = 'ulimit -f 40; exec "$0" "$@"'
    limited = program("train.py", "resume=runs/run", "trainer.steps=9", before=["bash", "-c", command])
    assert limited.returncode == 2, limited.stdout
    assert (
        limited.stderr == "error: the checkpoint of step 9 could not be saved (File too large); "
        "the checkpoint of step 6 is kept: continue with resume=runs/run\n"
    )
    assert "Traceback" not in limited.stdout
    run = book.parent / "runs" / "run"
    assert whole_checkpoints(run) == [6]
    assert in_process("train.py", "resume=runs/run", "trainer.steps=9").returncode == 0
    assert whole_checkpoints(run) == [9]
