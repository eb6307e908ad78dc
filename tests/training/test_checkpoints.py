"""Checkpoints on disk."""

import shutil
from pathlib import Path

import pytest
import torch

from training.checkpoints import checkpoint_path, checkpoint_step, load_state, load_weights, save_checkpoint
from training.errors import UserError


def save(run: Path, step: int, best: bool = False, keep: int = 0) -> Path:
    weights = {"w": torch.full((3,), float(step))}
    return save_checkpoint(run / "checkpoints", step, weights, {"step": step}, {"step": step}, best=best, keep=keep)


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_last_and_best_point_at_their_steps_and_others_are_dropped(tmp_path: Path) -> None:
    """Guards: a disk that fills, and `best` overwritten by the latest."""
    for step, best in ((10, False), (20, True), (30, False), (40, False)):
        save(tmp_path, step, best)
    assert names(tmp_path) == ["best", "last", "step-00000020", "step-00000040"]
    assert checkpoint_path(tmp_path, "best").name == "step-00000020"
    assert checkpoint_path(tmp_path, "last").name == "step-00000040"
    assert load_weights(checkpoint_path(tmp_path, "best"))["w"].tolist() == [20.0] * 3
    assert load_state(checkpoint_path(tmp_path, "last")) == {"step": 40}


def test_keep_leaves_that_many_older_ones(tmp_path: Path) -> None:
    """Guards: an off-by-one in what is deleted."""
    for step in (1, 2, 3, 4, 5):
        save(tmp_path, step, keep=2)
    assert [name for name in names(tmp_path) if name.startswith("step")] == [
        "step-00000003",
        "step-00000004",
        "step-00000005",
    ]


def test_a_half_written_checkpoint_is_never_picked_up(tmp_path: Path) -> None:
    """Guards: a kill during the write leaving a folder that resume trusts."""
    save(tmp_path, 10)
    half = tmp_path / "checkpoints" / ".tmp-step-00000020"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    assert checkpoint_path(tmp_path).name == "step-00000010"
    save(tmp_path, 30)
    assert not half.exists()


def test_saving_a_step_again_replaces_its_state(tmp_path: Path) -> None:
    """Guards: an evaluation that was made up for after a resume being forgotten, or the step's folder being in the way."""
    save(tmp_path, 10)
    folder, weights = tmp_path / "checkpoints", {"w": torch.full((3,), 10.0)}
    save_checkpoint(folder, 10, weights, {"step": 10, "evaluated": True}, {"step": 10}, best=True, keep=0)
    assert names(tmp_path) == ["best", "last", "step-00000010"]
    assert load_state(checkpoint_path(tmp_path, "best")) == {"step": 10, "evaluated": True}
    assert sorted(p.name for p in (folder / "step-00000010").iterdir()) == [
        "state.json",
        "state.pt",
        "weights.safetensors",
    ]


def test_left_over_links_and_folders_of_a_kill_are_removed(tmp_path: Path) -> None:
    """Guards: a kill between making a link and moving it breaking every later save."""
    save(tmp_path, 10)
    (tmp_path / "checkpoints" / ".tmp-best").symlink_to("step-00000010")
    (tmp_path / "checkpoints" / ".tmp-step-00000015").mkdir()
    save(tmp_path, 20)
    assert names(tmp_path) == ["last", "step-00000020"]


def test_a_copy_without_symbolic_links_still_has_its_newest_checkpoint(tmp_path: Path) -> None:
    """Guards: a run folder carried over a file system that drops links."""
    save(tmp_path, 10)
    (tmp_path / "checkpoints" / "last").unlink()
    assert checkpoint_path(tmp_path).name == "step-00000010"


def test_a_copy_that_followed_the_links_goes_on(tmp_path: Path) -> None:
    """Guards: `cp -rL` or an archive turning `last` and `best` into folders, which no link can replace."""
    save(tmp_path / "run", 10, best=True)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "run", copy)
    assert not (copy / "checkpoints" / "last").is_symlink()
    assert checkpoint_step(checkpoint_path(copy, "best")) == 10
    save(copy, 20)
    assert checkpoint_step(checkpoint_path(copy, "last")) == 20
    assert checkpoint_step(checkpoint_path(copy, "best")) == 10


def test_a_folder_without_checkpoint_is_named(tmp_path: Path) -> None:
    """Guards: a traceback for an empty run."""
    with pytest.raises(UserError, match="no checkpoint"):
        checkpoint_path(tmp_path)


@pytest.mark.parametrize("file", ["weights.safetensors", "state.pt"])
@pytest.mark.parametrize("damage", ["truncate", "empty", "remove"])
def test_a_damaged_file_is_named_with_the_fix(tmp_path: Path, file: str, damage: str) -> None:
    """Guards: a torch traceback for a truncated copy."""
    save(tmp_path, 10, keep=1)
    checkpoint = save(tmp_path, 20, keep=1)
    path = checkpoint / file
    content = path.read_bytes()
    path.unlink()
    if damage != "remove":
        path.write_bytes(content[: len(content) // 2] if damage == "truncate" else b"")
    with pytest.raises(UserError, match=rf"{file}.*damaged.*step-00000010"):
        load_weights(checkpoint) if file.startswith("weights") else load_state(checkpoint)
