"""Checkpoints on disk."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from configs.errors import UserError
from tests.conftest import environment
from training.checkpoints.files import data_hashes, load_state, load_weights
from training.checkpoints.folder import record_evaluation, rewind, save_checkpoint
from training.checkpoints.loading import checkpoint_path, read_checkpoint
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import Damaged, checkpoint_step, fix, load_progress
from training.counters import Progress

KILLED = 9


def save(run: Path, step: int, best: bool = False, keep: int = 0, best_step: int | None = None) -> Path:
    """Save a step as training does, with weights and state that identify it, and record its evaluation."""
    folder, weights = run / "checkpoints", {"w": torch.full((3,), float(step))}
    run.mkdir(exist_ok=True)
    progress = Progress(step=step, best_step=best_step).state_dict()
    checkpoint = save_checkpoint(folder, step, Snapshot(weights, {"of": step}), progress, keep=keep)
    evaluated = progress | {"evaluated_step": step, "best_step": step if best else best_step}
    record_evaluation(folder, evaluated, best=best, keep=keep)
    return checkpoint


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def steps(run: Path) -> list[int]:
    """Return the steps of the run's checkpoints, all of which must be complete."""
    result = sorted((run / "checkpoints").glob("step-*"))
    for checkpoint in result:
        step = checkpoint_step(checkpoint)
        assert load_weights(checkpoint)["w"].tolist() == [float(step)] * 3
        assert load_state(checkpoint)["of"] == step
    return [checkpoint_step(checkpoint) for checkpoint in result]


def test_last_and_best_point_at_their_steps_and_others_are_dropped(tmp_path: Path) -> None:
    """Guards against a disk that fills, and `best` overwritten by the latest checkpoint."""
    for step, best in ((10, False), (20, True), (30, False), (40, False)):
        save(tmp_path, step, best)
    assert names(tmp_path) == ["best", "last", "step-00000020", "step-00000040"]
    assert checkpoint_path(tmp_path, "best").name == "step-00000020"
    assert checkpoint_path(tmp_path, "last").name == "step-00000040"
    assert steps(tmp_path) == [20, 40]


@pytest.mark.parametrize("keep", [1, 3])
def test_keep_leaves_that_many_older_ones(tmp_path: Path, keep: int) -> None:
    """Guards against an off-by-one in what is deleted, and a slice that counts from the end if there are few
    checkpoints."""
    for step in range(1, 7):
        save(tmp_path, step, keep=keep)
        assert steps(tmp_path) == list(range(max(1, step - keep), step + 1))


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    """Guards against the newest checkpoint deleted instead of the oldest once steps have nine digits."""
    for step in (99_999_984, 99_999_992, 100_000_000, 100_000_008):
        save(tmp_path, step, keep=1)
    assert steps(tmp_path) == [100_000_000, 100_000_008]
    assert fix(tmp_path / "checkpoints" / "last").endswith("step-100000008")
    with pytest.raises(UserError, match=r"available: step-100000000, step-100000008$"):
        checkpoint_path(tmp_path, "step-00000007")


def test_a_half_written_checkpoint_is_never_picked_up(tmp_path: Path) -> None:
    """Guards against a folder, left by a kill during a write, that a resume accepts as complete."""
    save(tmp_path, 10)
    half = tmp_path / "checkpoints" / ".tmp-step-00000020"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    assert checkpoint_path(tmp_path).name == "step-00000010"
    save(tmp_path, 30)
    assert not half.exists()


def test_an_evaluation_changes_the_counters_of_a_checkpoint_alone(tmp_path: Path) -> None:
    """Guards an evaluation repeated after a resume: it is not lost, and does not save the weights a second time."""
    checkpoint = save(tmp_path, 10)
    before = {path.name: path.stat().st_ino for path in checkpoint.iterdir()}
    record_evaluation(tmp_path / "checkpoints", {"step": 10, "evaluated_step": 10}, best=True, keep=0)
    assert names(tmp_path) == ["best", "last", "step-00000010"]
    assert load_state(checkpoint_path(tmp_path, "best"))["progress"] == {"step": 10, "evaluated_step": 10}
    after = {path.name: path.stat().st_ino for path in checkpoint.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"state.json"}


def test_the_hashes_of_the_data_are_read_without_the_state(tmp_path: Path) -> None:
    """Guards against loading the optimiser state for one string, and hashes that an evaluation drops."""
    folder = tmp_path / "checkpoints"
    snapshot = Snapshot({"w": torch.zeros(3)}, {"data": "train valid test"})
    checkpoint = save_checkpoint(folder, 10, snapshot, {"step": 10}, keep=0)
    record_evaluation(folder, {"step": 10, "evaluated_step": 10}, best=True, keep=0)
    assert load_state(checkpoint)["data"] == "train valid test", "which a resume reads"
    (checkpoint / "state.pt").unlink()
    assert data_hashes(checkpoint) == ["train", "valid", "test"]


def test_repeated_step_has_matching_weights_and_state(tmp_path: Path) -> None:
    """Guards against old weights with a new state if training is repeated from an earlier step."""
    folder = tmp_path / "checkpoints"
    for value in (1.0, 2.0):
        save_checkpoint(folder, 10, Snapshot({"w": torch.full((3,), value)}, {"of": value}), {"step": 10}, keep=0)
    last = checkpoint_path(tmp_path, "last")
    assert load_weights(last)["w"].tolist() == [2.0] * 3
    assert load_state(last)["of"] == 2.0
    assert len(list(folder.glob("step-*"))) == 1


def test_weights_and_state_of_different_saves_are_refused(tmp_path: Path) -> None:
    """Guards against a file copied from another run or step, which fits by shape but has the moments of other
    weights."""
    one, other = save(tmp_path / "one", 10), save(tmp_path / "other", 10)
    shutil.copy(other / "weights.safetensors", one)
    with pytest.raises(UserError, match=r"state\.pt: .*not saved together with weights\.safetensors"):
        load_state(one)


def test_counters_are_valid_json_before_the_first_evaluation(tmp_path: Path) -> None:
    """Guards against `Infinity`, which is not JSON."""
    checkpoint = save(tmp_path, 10)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = (checkpoint / "state.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=refuse)["best_loss"] is None
    progress = Progress(best_loss=1.0)
    progress.load_state_dict(load_progress(checkpoint))
    assert progress.best_loss == float("inf")


def test_left_over_links_and_folders_of_a_kill_are_removed(tmp_path: Path) -> None:
    """Guards against a kill between creating and renaming a link, after which every save would fail."""
    save(tmp_path, 10)
    (tmp_path / "checkpoints" / ".tmp-best").symlink_to("step-00000010")
    (tmp_path / "checkpoints" / ".tmp-step-00000015").mkdir()
    save(tmp_path, 20)
    assert names(tmp_path) == ["last", "step-00000020"]


def test_copy_without_symlinks_uses_newest_checkpoint(tmp_path: Path) -> None:
    """Guards a run folder copied through a file system without links."""
    save(tmp_path, 10)
    (tmp_path / "checkpoints" / "last").unlink()
    assert checkpoint_path(tmp_path).name == "step-00000010"


def test_a_copy_that_followed_the_links_goes_on(tmp_path: Path) -> None:
    """Guards against `cp -rL` or an archive that turns `last` and `best` into folders, which a link cannot replace."""
    save(tmp_path / "run", 10, best=True)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "run", copy)
    assert not (copy / "checkpoints" / "last").is_symlink()
    assert checkpoint_step(checkpoint_path(copy, "best")) == 10
    assert rewind(checkpoint_path(copy, "last"), 10, keep=5) == []
    save(copy, 20, best_step=10)
    assert checkpoint_step(checkpoint_path(copy, "last")) == 20
    assert checkpoint_step(checkpoint_path(copy, "best")) == 10


def test_a_folder_without_checkpoint_is_named(tmp_path: Path) -> None:
    """Guards against a traceback for an empty run."""
    with pytest.raises(UserError, match="no checkpoint"):
        checkpoint_path(tmp_path)


def test_a_step_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    """Guards against loading a checkpoint other than the requested one."""
    save(tmp_path, 10, keep=1)
    save(tmp_path, 20, keep=1)
    assert checkpoint_path(tmp_path, "step-00000010").name == "step-00000010"
    with pytest.raises(UserError, match=r"step-00000015: no such checkpoint; available: step-00000010, step-00000020"):
        checkpoint_path(tmp_path, "step-00000015")


def test_rewind_drops_later_checkpoints_and_resets_best(tmp_path: Path) -> None:
    """Guards against `best` and its loss from a discarded part of training."""
    save(tmp_path, 10, best=True, keep=5)
    save(tmp_path, 20, best_step=10, keep=5)
    save(tmp_path, 30, best=True, keep=5)
    save(tmp_path, 40, best_step=30, keep=5)
    assert rewind(checkpoint_path(tmp_path, "step-00000020"), 10, keep=5) == ["step-00000030", "step-00000040"]
    assert names(tmp_path) == ["best", "last", "step-00000010", "step-00000020"]
    assert checkpoint_step(checkpoint_path(tmp_path, "last")) == 20
    assert checkpoint_step(checkpoint_path(tmp_path, "best")) == 10


def test_going_back_to_where_the_best_is_gone_leaves_none(tmp_path: Path) -> None:
    """Guards against `best` pointing to a deleted checkpoint, or to a later one."""
    save(tmp_path, 10, best=True, keep=1)
    save(tmp_path, 20, best_step=10, keep=1)
    save(tmp_path, 30, best=True, keep=1)
    assert rewind(checkpoint_path(tmp_path, "step-00000020"), 10, keep=5) == ["step-00000030"]
    assert names(tmp_path) == ["last", "step-00000020"]


def test_a_second_checkpoint_of_the_best_step_is_the_best(tmp_path: Path) -> None:
    """Guards against `best` left at an older checkpoint of the same step after a kill before the link was set."""
    save(tmp_path, 10, best=True, keep=5)
    second = save(tmp_path, 10, best_step=10, keep=5)
    assert second.name == "step-00000010-2"
    assert checkpoint_path(tmp_path, "best").name == "step-00000010", "as the kill leaves it"
    assert rewind(checkpoint_path(tmp_path, "last"), 10, keep=5) == []
    assert checkpoint_path(tmp_path, "best").name == "step-00000010-2"


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_link_to_itself_is_replaced(tmp_path: Path, name: str) -> None:
    """Guards against a traceback where a link leads nowhere: the newest checkpoint is found without it."""
    save(tmp_path, 10, best=True, keep=5)
    save(tmp_path, 20, best_step=10, keep=5)
    link = tmp_path / "checkpoints" / name
    link.unlink()
    link.symlink_to(name)
    assert rewind(checkpoint_path(tmp_path, "last"), 10, keep=5) == []
    assert checkpoint_step(checkpoint_path(tmp_path, "last")) == 20
    assert checkpoint_step(checkpoint_path(tmp_path, "best")) == 10


def test_best_survives_a_resume_after_the_best_loss_was_reset(tmp_path: Path) -> None:
    """Guards against losing the best weights if the counters do not contain their step."""
    save(tmp_path, 10, best=True)
    save(tmp_path, 20)
    assert rewind(checkpoint_path(tmp_path, "last"), None, keep=5) == []
    assert checkpoint_step(checkpoint_path(tmp_path, "best")) == 10


@pytest.mark.slow
def test_reader_finds_complete_checkpoint_during_training(tmp_path: Path) -> None:
    """Guards generation during training: a checkpoint deleted between the choice and the loading is not called
    damaged."""
    save(tmp_path, 1, best=True)
    child = os.fork()
    if child == 0:
        for step in range(2, 150):
            save(tmp_path, step, best=True)
        os._exit(0)
    read: set[int] = set()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        result = read_checkpoint(tmp_path, "best")
        assert result.weights["w"].tolist() == [float(result.step)] * 3
        read.add(result.step)
    assert len(read) > 10, "the point is to read while others are dropped"


@pytest.mark.parametrize("file", ["weights.safetensors", "state.pt", "state.json"])
def test_what_cannot_be_opened_is_not_to_be_deleted(tmp_path: Path, file: str) -> None:
    """Guards against `To fix it: delete …` for an intact checkpoint that a permission or a network file system makes
    unreadable."""
    save(tmp_path, 10, keep=1)
    checkpoint = save(tmp_path, 20, keep=1)
    (checkpoint / file).unlink()
    (checkpoint / file).symlink_to(file)  # to itself, which the system refuses to open
    with pytest.raises(UserError, match=rf"{file}: cannot be read \(Too many levels of symbolic links\)$") as raised:
        load_weights(checkpoint) if file.startswith("weights") else load_state(checkpoint)
    assert not isinstance(raised.value, Damaged)


IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from training.checkpoints.files import load_state
pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
limit = pages * resource.getpagesize() + 10_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    load_state(Path(sys.argv[1]))
except (RuntimeError, MemoryError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_a_state_that_does_not_fit_into_memory_is_not_damaged(tmp_path: Path) -> None:
    """Guards against advice to delete the last checkpoint because another program uses the memory at the moment."""
    checkpoint = save_checkpoint(tmp_path, 1, Snapshot({}, {"s": torch.zeros(10_000_000)}), {"step": 1}, keep=0)
    # A process of its own: one that has freed much memory finds room for the state in it.
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, checkpoint],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "memory" in done.stdout
    assert "damaged" not in done.stdout


def killed_before_file_operation(number: int, action: Callable[[], object]) -> bool:
    """Run `action` in a process that dies before its file operation of this number; return whether it died."""
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, arguments: tuple) -> None:
            nonlocal seen
            if event in ("open", "os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree"):
                if seen == number:
                    os._exit(KILLED)
                seen += 1

        sys.addaudithook(count)
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


@pytest.mark.slow
@pytest.mark.parametrize("best", [True, False])
def test_kill_during_save_keeps_last_and_best(tmp_path: Path, best: bool) -> None:
    """Guards the best checkpoint against a kill before `best` is updated, and against incomplete folders."""
    number = 0
    while True:
        run = tmp_path / str(number)
        save(run, 10, best=True)
        save(run, 20, best_step=10)
        if not killed_before_file_operation(number, partial(save, run, 30, best=best, best_step=10)):
            break
        assert {10, 20} <= set(steps(run)) or {30} <= set(steps(run)), "whole, whatever there is"
        last = checkpoint_path(run, "last")
        assert checkpoint_step(last) in (20, 30)
        assert checkpoint_step(checkpoint_path(run, "best")) in (10, 30)
        best_step = load_progress(last)["best_step"]
        rewind(last, best_step, keep=0)  # as a resume does
        assert steps(run) == sorted({best_step, checkpoint_step(last)})
        assert checkpoint_step(checkpoint_path(run, "best")) == best_step
        save(run, 40, best_step=best_step)
        assert steps(run) == [best_step, 40]
        assert names(run) == ["best", "last", f"step-{best_step:08d}", "step-00000040"]
        number += 1
    assert number > 15, "the point is a kill between any two operations"
