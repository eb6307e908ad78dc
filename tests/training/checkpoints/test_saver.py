"""Checkpoints that are written while training continues: each holds one step, and a failure reaches the trainer."""

import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

from data.batches.batch import Batch
from tests.training.tiny_trainer import Listed, pairs, train, trainer
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.saver import CheckpointSaver
from training.checkpoints.snapshot import Snapshot
from training.counters import Progress
from training.run_folder.log import RunLog
from training.trainer import Trainer


class Saving(Listed):
    """Batches whose request begins a checkpoint, so that the step runs while it is written."""

    each: Trainer

    def next_batch(self) -> Batch:
        self.each.saver.save()
        return super().next_batch()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"ema": 0.9}])
def test_checkpoint_is_consistent_while_training_continues(settings: dict, tmp_path: Path) -> None:
    """Guards against weights, moments or averages of the next step in a checkpoint: a resume would give other results.

    The files take longer to write than a step takes to reach its update.
    """
    each = trainer(pairs(), steps=9, evaluate_every=9, keep=99, **settings)
    each.stream = Saving(pairs())
    each.stream.each = each
    pad_state(each, 8_000_000)
    train(each, tmp_path / "run")
    straight = trainer(pairs(), steps=9, evaluate_every=9, **settings)
    for step in range(9):
        checkpoint = tmp_path / "run" / "checkpoints" / f"step-{step:08d}"
        weights, state = load_weights(checkpoint), load_state(checkpoint)
        assert state["progress"]["step"] == step
        assert all(torch.equal(weights[name], tensor) for name, tensor in straight.weights.saved_weights().items())
        if settings:
            masters = straight.weights.state_dict()["masters"]
            assert isinstance(masters, dict)
            assert all(torch.equal(state["weights"]["masters"][name], tensor) for name, tensor in masters.items())
        saved = [part for optimizer in state["optimizer"] for part in optimizer]
        expected = [part for optimizer in straight.optimizer.state_dict() for part in optimizer]
        for part, other in zip(saved, expected, strict=True):
            assert all(torch.equal(part[name], other[name]) for name in other)
        straight.step()


def pad_state(each: Trainer, numbers: int) -> None:
    """Put a large tensor in front of the state, so that the rest is written late."""
    contents, padding = each.saver.contents, torch.zeros(numbers)

    def padded() -> tuple[dict[str, Tensor], dict]:
        weights, state = contents()
        return weights, {"padding": padding, **state}

    each.saver.contents = padded


def test_update_waits_for_state_and_copies_unwritten_weights() -> None:
    """Guards against a second copy of the moments in memory, and weights that change while they are written."""
    names = "abcd"
    live = {name: torch.full((1 << 20,), float(number)) for number, name in enumerate(names)}
    snapshot = Snapshot(live, {"moments": torch.ones(3)})
    updated, go_on, written = threading.Event(), threading.Event(), bytearray()

    def update() -> None:
        snapshot.before_update()
        for tensor in live.values():
            tensor.fill_(-1)
        updated.set()

    training = threading.Thread(target=update)
    training.start()
    assert not updated.wait(0.1), "the state is not written yet: an update would change it"

    def write(content: memoryview) -> None:
        written.extend(content)

    def write_all() -> None:
        with snapshot.in_use():
            assert snapshot.state["moments"].sum() == 3
            snapshot.write_weights(write)
            go_on.wait()

    writer = threading.Thread(target=write_all)
    writer.start()
    training.join()
    go_on.set()
    writer.join()
    assert torch.equal(torch.frombuffer(written, dtype=torch.float32), torch.arange(4.0).repeat_interleave(1 << 20))
    assert torch.equal(live["a"], torch.full((1 << 20,), -1.0))
    assert snapshot.state["moments"] is not None
    snapshot.before_update()  # once more: nothing to wait for


def test_an_update_does_not_wait_for_a_writer_that_failed() -> None:
    """Guards against a run that hangs after a full disk."""
    snapshot = Snapshot({"a": torch.ones(3)}, {})
    with pytest.raises(OSError, match="full"), snapshot.in_use():
        raise OSError("full")
    snapshot.before_update()


class Failing:
    """A value that cannot be saved."""

    def __reduce__(self) -> str:
        raise RuntimeError("a bug while saving")


def saver(folder: Path, state: dict) -> tuple[CheckpointSaver, Progress]:
    """Return a saver of a tiny state."""
    progress = Progress()
    return CheckpointSaver(lambda: ({"w": torch.full((3,), float(progress.step))}, state), progress, keep=9), progress


def test_an_exception_in_the_writer_that_is_not_of_the_disk_ends_training(tmp_path: Path) -> None:
    """Guards against hours of training without checkpoints after a bug that only a thread has seen."""
    failing, _ = saver(tmp_path, {"bug": Failing()})
    log = RunLog(tmp_path, 0)
    with pytest.raises(RuntimeError, match="a bug while saving"), failing.opened(tmp_path, log):
        failing.save()
    assert failing.saved_step is None
    assert failing.pending is None
    log.close()


def test_an_evaluation_is_recorded_with_the_checkpoint_of_its_step(tmp_path: Path) -> None:
    """Guards against a result recorded in the checkpoint before, because the new one is still being written."""
    each, progress = saver(tmp_path, {"large": torch.zeros(3_000_000)})
    log = RunLog(tmp_path, 0)
    with each.opened(tmp_path, log):
        for step in (1, 2, 3):
            progress.step = step
            each.save()
            progress.evaluated_step = step
            assert each.record(best=step == 2)
            assert each.saved_step == step
        progress.step = 4
        each.save()
        progress.step = 5
        each.save()  # waits for the one before
    log.close()
    assert each.saved_step == 5
    for step in (1, 2, 3, 4, 5):
        checkpoint = tmp_path / "checkpoints" / f"step-0000000{step}"
        assert load_state(checkpoint)["progress"]["evaluated_step"] == min(step, 3)
        assert load_weights(checkpoint)["w"].tolist() == [step] * 3
    assert (tmp_path / "checkpoints" / "best").resolve().name == "step-00000002"
