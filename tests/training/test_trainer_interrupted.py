"""Evaluations that fail, diverge or are interrupted: no training step is lost, and no point is written twice."""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from configs.errors import UserError
from tests.training.tiny_trainer import curve, go_on, pairs, resumed, train, trainer
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import checkpoint_step
from training.run_folder.log import RunLog
from training.stop_request import Interrupted
from training.trainer import Evaluate, Trainer


def test_diverged_run_stops_and_keeps_last_good_checkpoint(tmp_path: Path) -> None:
    """Guards against NaN weights that overwrite the last good checkpoint, and a traceback far from the cause."""
    folder = tmp_path / "diverging"
    each = trainer(pairs(), steps=50, evaluate_every=2)

    def evaluate(step: int, record: dict) -> float:
        if step == 2:
            each.optimizer.optimizers[0].param_groups[0]["lr"] = 1e38
        return 1.0

    with pytest.raises(UserError, match=r"lower optim\.lr"):
        train(each, folder, evaluate)
    assert checkpoint_path(folder, "last").name == "step-00000002"
    assert all(bool(tensor.isfinite().all()) for tensor in load_weights(checkpoint_path(folder, "last")).values())


def test_a_later_signal_of_the_launcher_does_not_end_the_last_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a worker of torchrun that stops because another one was signalled, and that its own signal, a few
    milliseconds later, kills while the last step is being saved."""
    reached: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: reached.append(number))
    worker = trainer(pairs(), steps=8, evaluate_every=4)
    worker.stop.pause = 3.0
    save = worker.saver.save

    def signalled_save() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        save()

    def interrupted(step: int, record: dict) -> float:
        monkeypatch.setattr(worker.saver, "save", signalled_save)
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal did not end the evaluation")

    try:
        with pytest.raises(Interrupted):
            train(worker, tmp_path / "worker", interrupted)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert reached == []


def test_signal_during_evaluation_saves_and_repeats_evaluation(tmp_path: Path) -> None:
    """Guards against a preempted run that loses its grace time to a long evaluation, or skips that evaluation for
    good."""
    folder = tmp_path / "preempted"
    each = trainer(pairs(), steps=8, evaluate_every=4)

    def interrupted(step: int, record: dict) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal did not end the evaluation")

    with pytest.raises(Interrupted) as ended:
        train(each, folder, interrupted)
    assert ended.value.exit_code == 128 + signal.SIGTERM
    checkpoint = checkpoint_path(folder, "last")
    assert checkpoint.name == "step-00000004"
    again = trainer(pairs(), steps=8, evaluate_every=4)
    again.restore(load_weights(checkpoint), load_state(checkpoint))
    evaluated: list[int] = []
    log = RunLog(folder, 4)
    again.train(folder, log, lambda step, record: evaluated.append(step) or 1.0)
    log.close()
    assert evaluated == [4, 8]


def test_an_evaluation_that_fails_loses_no_step_and_is_made_up_for(tmp_path: Path) -> None:
    """Guards against hours of training since the last checkpoint lost to an evaluation that runs out of memory."""
    folder = tmp_path / "failing"

    def fail(step: int, record: dict) -> float:
        if step == 6:
            raise MemoryError
        return 1.0 / step

    with pytest.raises(MemoryError):
        train(trainer(pairs(), steps=9, evaluate_every=3, ema=0.9), folder, fail)
    again = resumed(folder, steps=9, evaluate_every=3, ema=0.9)
    assert (again.progress.step, again.progress.evaluated_step) == (6, 3)
    go_on(again, folder, lambda log: lambda step, record: 1.0 / step)
    straight = trainer(pairs(), steps=9, evaluate_every=3, ema=0.9)
    train(straight, tmp_path / "straight")
    assert torch.equal(again.weights.flat_masters, straight.weights.flat_masters)
    lines = [curve(run / "metrics.jsonl") for run in (folder, tmp_path / "straight")]
    assert lines[0] == lines[1]
    assert [line["step"] for line in lines[0]] == [3, 6, 9]
    assert checkpoint_path(folder, "best").name == "step-00000009"


def test_best_checkpoint_survives_failed_record_of_its_evaluation(tmp_path: Path) -> None:
    """Guards the best weights against deletion by the next save because their evaluation could not be recorded."""
    each = trainer(pairs(), steps=8, evaluate_every=2)
    in_the_way = tmp_path / "checkpoints" / "step-00000004" / ".tmp-state.json"

    def evaluate(step: int, record: dict) -> float:
        each.saver.wait()
        if step == 4:
            in_the_way.mkdir()
        if step == 6:
            in_the_way.rmdir()
        return {2: 1.0, 4: 0.1, 6: 0.9, 8: 0.8}[step]

    log = RunLog(tmp_path, 0)
    each.train(tmp_path, log, evaluate)
    log.close()
    best = checkpoint_path(tmp_path, "best")
    assert checkpoint_step(best) == 4
    progress = json.loads((tmp_path / "checkpoints" / "last" / "state.json").read_text(encoding="utf-8"))
    assert (progress["best_step"], progress["best_loss"]) == (4, 0.1)
    load_weights(best)


def test_an_evaluation_leaves_the_random_state_alone(tmp_path: Path) -> None:
    """Guards against different steps after a resume from before an evaluation."""

    def draw(step: int, record: dict) -> float:
        return float(torch.rand(()))

    states = []
    for name, evaluate in (("drawing", draw), ("plain", lambda step, record: 1.0)):
        train(trainer(pairs(), steps=4, evaluate_every=2), tmp_path / name, evaluate)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_a_signal_late_in_an_evaluation_leaves_no_point_twice(tmp_path: Path) -> None:
    """Guards against curves with two values at one step, and a repeated line of metrics.jsonl."""
    folder = tmp_path / "late"
    folder.mkdir()

    def evaluation(log: RunLog, interrupted: bool) -> Evaluate:
        def evaluate(step: int, record: dict) -> float:
            log.scalars({"val/loss": 1.0}, step)
            log.markdown("samples", "text", step)
            if interrupted and step == 6:
                os.kill(os.getpid(), signal.SIGTERM)
            return 1.0 / step

        return evaluate

    with pytest.raises(Interrupted):
        go_on(trainer(pairs(), steps=9, evaluate_every=3), folder, lambda log: evaluation(log, interrupted=True))
    assert [line["step"] for line in curve(folder / "metrics.jsonl")] == [3]
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:  # a kill before the evaluation was recorded
        file.write('{"step": 6}\n')
    go_on(resumed(folder, steps=9, evaluate_every=3), folder, lambda log: evaluation(log, interrupted=False))
    assert [line["step"] for line in curve(folder / "metrics.jsonl")] == [3, 6, 9]
    events = EventAccumulator(str(folder)).Reload()
    assert [event.step for event in EventAccumulator(str(folder / "val")).Reload().Scalars("loss")] == [3, 6, 9]
    assert [event.step for event in events.Scalars("val/best_loss")] == [3, 6, 9]
    assert [event.step for event in events.Tensors("samples/text_summary")] == [3, 6, 9]
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5, 6, 7, 8, 9]


SETTINGS = {"steps": 2, "evaluate_every": 1, "ema": 0.9}


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, list[dict]]:
    """An uninterrupted run with SETTINGS, and its metrics."""
    each, folder = trainer(pairs(), **SETTINGS), tmp_path_factory.mktemp("straight") / "run"
    train(each, folder)
    return each, curve(folder / "metrics.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("instant", range(1, 1500, 150))
def test_signal_at_any_instant_of_an_evaluation_leaves_a_good_checkpoint(
    instant: int, straight: tuple[Trainer, list[dict]], tmp_path: Path
) -> None:
    """Guards against an exception that leaves the evaluation where it is not caught: nothing saved, exit by
    traceback."""
    folder = tmp_path / "interrupted"
    passed = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal passed
        passed += event == "opcode"
        if passed == instant:
            passed += 1
            signal.raise_signal(signal.SIGTERM)
        return count

    def enter(frame: FrameType, event: str, argument: object) -> object:
        """Count bytecodes of `Trainer.evaluate`, of our code that it calls, and of the context managers."""
        caller: FrameType | None = frame
        while caller is not None and caller.f_code is not Trainer.evaluate.__code__:
            caller = caller.f_back
        if caller is None or not frame.f_code.co_filename.endswith(
            ("trainer.py", "saver.py", "weights_and_gradients.py", "stop_request.py", "contextlib.py")
        ):
            return None
        frame.f_trace_opcodes = True
        return count

    each = trainer(pairs(), **SETTINGS)
    sys._getframe().f_trace_opcodes = True  # Python 3.12.1 ignores the first use if it comes after settrace
    sys.settrace(enter)
    try:
        train(each, folder)
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
    assert passed >= instant
    again = resumed(folder, **SETTINGS)
    assert torch.equal(again.weights.flat_masters, each.weights.flat_masters)
    assert all(map(torch.equal, again.weights.average, each.weights.average))
    go_on(again, folder, lambda log: lambda step, record: 1.0 / step)
    uninterrupted, metrics = straight
    assert torch.equal(again.weights.flat_masters, uninterrupted.weights.flat_masters)
    assert curve(folder / "metrics.jsonl") == metrics
