"""Files after a power failure: without fsync a file may lose its content, and a folder its entries."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.conftest import TINY, train_command


class Disk:
    """Records what was flushed: contents of files and entries of folders. Only these survive a power failure."""

    def __init__(self) -> None:
        self.contents: dict[int, bytes] = {}
        self.names: dict[int, dict[str, int]] = {}
        self.fsync = os.fsync

    def flush(self, descriptor: int) -> None:
        """Run `os.fsync` and record what it flushes."""
        self.fsync(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(descriptor) as entries:
                self.names[status.st_ino] = {entry.name: entry.inode() for entry in entries}
        else:
            self.contents[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    def has_name(self, path: Path) -> bool:
        """Return whether the folder lists the file after a power failure."""
        return self.names.get(path.parent.stat().st_ino, {}).get(path.name) == path.lstat().st_ino

    def has(self, path: Path) -> bool:
        """Return whether the file exists with its current content after a power failure."""
        return self.has_name(path) and self.contents.get(path.stat().st_ino) == path.read_bytes()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Monitor the disk, and forbid renaming a file before its content is flushed."""
    disk = Disk()
    replace = os.replace

    def checked(source: Path, target: Path) -> None:
        if not Path(source).is_symlink():
            assert disk.contents.get(Path(source).stat().st_ino) == Path(source).read_bytes(), f"{target} may be empty"
        replace(source, target)

    monkeypatch.setattr(os, "fsync", disk.flush)
    monkeypatch.setattr(os, "replace", checked)
    return disk


@pytest.mark.slow
@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_a_run_survives_a_power_cut_in_the_moment_of_its_end(
    task: str, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against checkpoints made useless by an empty config or tokenizer, the lost metrics of an evaluation,
    and incomplete prepared data used for training."""
    monkeypatch.chdir(tmp_path)
    given = [*TINY, f"task={task}", "name=run", "trainer.beam_size=1", "data.cache=cache"]
    for more in (given, ["resume=runs/run", "trainer.steps=9"]):
        monkeypatch.setattr(sys, "argv", ["train.py", *more])
        train_command()
        run = Path("runs/run")
        may_be_lost = ("events.", "log.txt", ".lock")  # words, and curves that are in metrics.jsonl too
        needed = [path for path in run.iterdir() if path.is_file() and not path.name.startswith(may_be_lost)]
        assert {"config.yaml", "metrics.jsonl", "test.json"} < {path.name for path in needed}
        needed += [path for step in run.glob("checkpoints/step-*") for path in step.iterdir()]
        prepared = [path for path in Path("cache").rglob("*") if path.suffix != ".lock"]
        needed += [path for path in prepared if path.is_file()]
        assert [path.name for path in needed if not disk.has(path)] == []
        folders = [run, run / "checkpoints", *(run / "checkpoints").iterdir()]
        assert [path.name for path in folders if not disk.has_name(path)] == []
