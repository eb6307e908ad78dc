"""A run is exported once for each checkpoint, as a whole, and stale exports go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from tests.conftest import environment
from training.checkpoints.checksums import Checksum
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import SUMMARY, WEIGHTS, read_summary, summary
from training.run_folder.engine_folder import damage, engine_folder
from training.run_folder.saved_config import load_config

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of a trained GPT without what other tests have exported."""
    without = shutil.ignore_patterns("engine")
    return Path(shutil.copytree(trained / "runs/gpt", tmp_path / "runs/gpt", symlinks=True, ignore=without))


def test_the_export_is_written_once_and_the_next_process_needs_no_torch(run: Path, tmp_path: Path) -> None:
    """Guards against an export in each process, and against two seconds for importing torch."""
    program = (
        "import sys, generate\n"
        "sys.argv = ['generate.py', 'run=runs/gpt', 'prompt=Emi', 'max_tokens=5', 'engine=ctranslate2']\n"
        "generate.main()\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    written, changed = [], []
    for torch_was_imported in ("True\n", "False\n"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, torch_was_imported)
        written.append(done.stdout)
        (folder,) = (run / "engine").iterdir()
        changed.append(folder.stat().st_mtime_ns)
    assert written[0].startswith("Emi")
    assert written[0] == written[1]
    assert changed[0] == changed[1]
    assert {path.name for path in folder.iterdir()} == {"model.bin", "config.json", "vocabulary.json", "checksums.json"}
    assert not set("=,") & set(folder.name)


def test_other_weights_are_exported_and_those_that_are_gone_deleted(run: Path) -> None:
    """Guards against texts of an earlier checkpoint, and a run folder that grows without end."""
    config = load_config(run).model
    first = engine_folder(run, "last", config)
    abandoned, writing = first.with_name(f".{first.name}.abandoned"), first.with_name(f".{first.name}.writing")
    abandoned.mkdir()
    writing.mkdir()
    os.utime(abandoned, (time.time() - 10_000,) * 2)
    checkpoint = checkpoint_path(run, "last")
    weights = load_file(checkpoint / WEIGHTS)
    save_file({name: tensor + 0.01 for name, tensor in weights.items()}, checkpoint / WEIGHTS)
    progress, checksums = read_summary(checkpoint)
    checksums[WEIGHTS] = Checksum.of(checkpoint / WEIGHTS)
    (checkpoint / SUMMARY).write_bytes(summary(progress, checksums))
    second = engine_folder(run, "last", config)
    assert second != first
    assert set((run / "engine").iterdir()) == {second, writing}


@pytest.mark.parametrize("lost", ["model.bin", "config.json", "vocabulary.json", "checksums.json"])
@pytest.mark.parametrize("how", ["lost", "cut", "changed", "added"])
def test_a_damaged_export_is_written_again(run: Path, capsys: pytest.CaptureFixture[str], lost: str, how: str) -> None:
    """Guards against an error that only the user can end, although the weights are there, and against texts of damaged
    weights, which nobody notices."""
    config = load_config(run).model
    folder = engine_folder(run, "best", config)
    assert capsys.readouterr().err == ""
    content = (folder / lost).read_bytes()
    if how == "lost":
        (folder / lost).unlink()
    elif how == "added":
        (folder / f"x-{lost}").write_bytes(content)
    else:
        middle = len(content) // 2
        changed = bytes([content[middle] ^ 1]) + content[middle + 1 :] if how == "changed" else b""
        (folder / lost).write_bytes(content[:middle] + changed)
    assert engine_folder(run, "best", config) == folder
    assert (folder / lost).read_bytes() == content
    assert not (folder / f"x-{lost}").exists()
    output = capsys.readouterr().err
    assert output.startswith(f"warning: {folder} is damaged (")
    assert output.endswith("): it is written again\n")
    assert output.count("\n") == 1


def test_the_checksums_of_an_export_lead_nowhere_else(run: Path) -> None:
    """Guards against the run of somebody else whose list of files names a device, whose reading does not end."""
    folder = engine_folder(run, "best", load_config(run).model)
    listed = json.loads((folder / "checksums.json").read_text("utf-8"))
    (folder / "checksums.json").write_text(json.dumps(listed | {"/dev/zero": listed["model.bin"]}), "utf-8")
    assert damage(folder) == "it has other files than were written"


def test_the_export_of_a_snapshot_is_read_and_none_is_written_there(run: Path, tmp_path: Path) -> None:
    """Guards against refusing a run from the hub, whose files are links to a cache. Without a whole export, nothing is
    written through a link."""
    config = load_config(run).model
    folder = engine_folder(run, "best", config)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for path in folder.iterdir():
        path.rename(blobs / path.name)
        path.symlink_to(blobs / path.name)
    assert engine_folder(run, "best", config) == folder
    (run / "engine").rename(tmp_path / "elsewhere")
    (run / "engine").symlink_to(tmp_path / "elsewhere")
    assert engine_folder(run, "best", config) == folder
    (folder / "config.json").unlink()
    with pytest.raises(OSError, match="leads out of the run folder: nothing is written or deleted there"):
        engine_folder(run, "best", config)
    assert {path.name for path in folder.iterdir()} == {"model.bin", "vocabulary.json", "checksums.json"}


def test_a_damaged_checkpoint_is_replaced_as_for_torch(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against an export of damaged weights, and a run that one engine can use and the other cannot."""
    checkpoint = checkpoint_path(run, "best")
    shutil.copytree(checkpoint, checkpoint.with_name("step-00000001"))
    (checkpoint / WEIGHTS).write_bytes(b"damaged")
    config = load_config(run).model
    folder = engine_folder(run, "best", config)
    assert "step-00000001 is used instead" in capsys.readouterr().err
    assert engine_folder(run, "step-00000001", config) == folder
