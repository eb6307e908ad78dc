"""Weights of early steps: kept beside the checkpoints, never in place of one."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs.errors import UserError
from tests.training.tiny_trainer import go_on, pairs, resumed, train, trainer
from training.checkpoints.early_weights import early_weights, is_early, save_early_weights
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.folder import rewind, save_checkpoint
from training.checkpoints.loading import checkpoint_path, has_checkpoint, newest_first, read_checkpoint
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import load_progress
from training.trainer import Trainer


def kept(run: Path) -> list[str]:
    """Return the names of what is kept besides checkpoints, including left-overs."""
    return sorted(path.name for path in (run / "checkpoints").iterdir() if not path.name.startswith("step-"))


def contents(run: Path) -> dict[str, bytes]:
    """Return the files of early weights by name."""
    return {str(path.relative_to(run)): path.read_bytes() for path in run.glob("checkpoints/weights-*/*")}


def save(run: Path, step: int) -> None:
    """Save early weights that identify their step."""
    save_early_weights(run / "checkpoints", step, Snapshot({"w": torch.full((3,), float(step))}, {}))


def save_whole(run: Path, step: int) -> Path:
    """Save a checkpoint."""
    snapshot = Snapshot({"w": torch.full((3,), float(step))}, {"of": step})
    return save_checkpoint(run / "checkpoints", step, snapshot, {"step": step}, keep=9)


def test_the_kept_steps_are_few_and_early() -> None:
    """Guards against a run of 100,000 steps that keeps a hundred models."""
    assert [step for step in range(5000) if is_early(step)] == [0, 16, 64, 256, 1024, 4096]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"ema": 0.9}])
def test_the_weights_of_a_step_are_those_that_its_evaluation_would_use(settings: dict, tmp_path: Path) -> None:
    """Guards against weights of the next step, which training writes meanwhile, or without the average."""
    run = tmp_path / "run"
    each = trainer(pairs(), steps=66, evaluate_every=33, early_weights=True, **settings)
    train(each, run)
    assert kept(run) == ["best", "last", "weights-00000000", "weights-00000016", "weights-00000064"]
    straight = trainer(pairs(), steps=66, evaluate_every=33, **settings)
    for step in range(65):
        if is_early(step):
            result = read_checkpoint(run, f"weights-{step:08d}")
            assert (result.step, load_progress(result.path)) == (step, {"step": step})
            expected = straight.weights.saved_weights()
            assert result.weights.keys() == expected.keys()
            assert all(torch.equal(result.weights[name], tensor) for name, tensor in expected.items())
        straight.step()


@pytest.mark.slow
def test_keeping_weights_changes_nothing_else(tmp_path: Path) -> None:
    """Guards against another end of training, or another best checkpoint, because weights were kept."""
    ends: list[dict[str, Tensor]] = []
    for early in (False, True):
        run = tmp_path / str(early)
        train(trainer(pairs(), steps=20, evaluate_every=16, early_weights=early), run)
        assert checkpoint_path(run, "best").name == checkpoint_path(run, "last").name == "step-00000020"
        ends.append(load_weights(checkpoint_path(run)))
    assert all(torch.equal(ends[0][name], tensor) for name, tensor in ends[1].items())


@pytest.mark.slow
@pytest.mark.parametrize("failing", [16, 32])
def test_a_resumed_run_ends_with_the_same_files(failing: int, tmp_path: Path) -> None:
    """Guards against early weights that are missing after an interruption, also one between the checkpoint of their
    step and themselves."""
    settings = {"steps": 70, "evaluate_every": 16, "early_weights": True}
    train(trainer(pairs(), **settings), tmp_path / "straight")

    def fail(step: int, record: dict) -> float:
        if step == failing:
            raise MemoryError
        return 1.0 / step

    with pytest.raises(MemoryError):
        train(trainer(pairs(), **settings), tmp_path / "stopped", fail)
    assert not early_weights(tmp_path / "stopped" / "checkpoints", failing).exists()
    again: Trainer = resumed(tmp_path / "stopped", **settings)
    go_on(again, tmp_path / "stopped", lambda log: lambda step, record: 1.0 / step)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "straight")
    assert len(contents(tmp_path / "straight")) == 6


def test_going_back_drops_the_weights_of_later_steps(tmp_path: Path) -> None:
    """Guards against weights of a discarded part of training, which the part that replaces it would not overwrite."""
    save(tmp_path, 0)
    save_whole(tmp_path, 16)
    save(tmp_path, 16)
    save(tmp_path, 64)
    save_whole(tmp_path, 70)
    assert rewind(checkpoint_path(tmp_path, "step-00000016"), None, keep=9) == ["step-00000070"]
    assert kept(tmp_path) == ["last", "weights-00000000", "weights-00000016"]
    assert rewind(checkpoint_path(tmp_path), None, keep=9) == [], "the weights of the step itself stay"
    assert kept(tmp_path) == ["last", "weights-00000000", "weights-00000016"]


def test_weights_alone_are_no_checkpoint(tmp_path: Path) -> None:
    """Guards against a resume without moments, and a damaged checkpoint replaced by a model that has barely begun."""
    save(tmp_path, 64)
    assert not has_checkpoint(tmp_path)
    assert newest_first(tmp_path) == []
    with pytest.raises(UserError, match="no checkpoint"):
        read_checkpoint(tmp_path, "last")
    with pytest.raises(UserError, match="weights alone, so training cannot resume from it"):
        load_state(checkpoint_path(tmp_path, "weights-00000064"))
    damaged = save_whole(tmp_path, 16)
    (damaged / "weights.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match="every checkpoint is damaged: step-00000016"):
        read_checkpoint(tmp_path, "last")


def test_names_that_may_be_used_are_listed_by_step(tmp_path: Path) -> None:
    """Guards against an error message that hides the early weights."""
    for step in (64, 0):
        save(tmp_path, step)
    save_whole(tmp_path, 16)
    available = "weights-00000000, step-00000016, weights-00000064"
    with pytest.raises(UserError, match=f"weights-00000256: no such checkpoint; available: {available}$"):
        checkpoint_path(tmp_path, "weights-00000256")


def test_damage_is_found_and_a_half_written_folder_is_cleaned(tmp_path: Path) -> None:
    """Guards against changed weights that look like those of a head, and against left-overs of a kill."""
    half = tmp_path / "checkpoints" / ".tmp-weights-00000016"
    half.mkdir(parents=True)
    save(tmp_path, 64)
    assert kept(tmp_path) == ["weights-00000064"]
    path = checkpoint_path(tmp_path, "weights-00000064") / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(UserError, match="the checksum differs"):
        read_checkpoint(tmp_path, "weights-00000064")
