"""The temporary folder of the answers: deleted even after its process was killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attention_maps.tensorboard.temporary_folder import TemporaryFolder
from tests.conftest import ROOT, environment


def test_the_next_start_deletes_what_killed_processes_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against recordings that stay on the disk after TensorBoard and its worker were killed together, and
    against deleting those of another TensorBoard that runs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import sys\n"
        "from attention_maps.tensorboard.temporary_folder import TemporaryFolder\n"
        "made = TemporaryFolder()\n"
        "print(made.path, flush=True)\n"
        "sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment() | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout
    folder = Path(other.stdout.readline().strip())
    (folder / "asked_00001.safetensors").write_bytes(b"x")
    link = tmp_path / f"{folder.name}-link"
    link.symlink_to(ROOT)
    TemporaryFolder().remove()
    assert (folder / "asked_00001.safetensors").exists(), "its process still runs"
    other.kill()
    other.communicate()
    made = TemporaryFolder()
    assert not folder.exists()
    shutil.rmtree(made.path)  # as a cleaner of temporary files does
    made.create_again()
    TemporaryFolder().remove()
    assert made.path.exists(), "the folder that was created again is locked, too"
    made.remove()
    assert list(tmp_path.iterdir()) == [link]
