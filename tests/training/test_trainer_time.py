"""Time budgets: the end of training, warm-up, and the time that evaluations may take."""

import re
import signal
import time
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.tiny_trainer import curve, go_on, pairs, resumed, train, trainer
from training.config import ScheduleConfig
from training.stop_request import Interrupted
from training.trainer import Evaluate, Trainer


def test_a_budget_of_time_ends_the_run_and_anneals_the_rate(tmp_path: Path) -> None:
    """Guards against a time budget that is ignored, spent on warm-up, or that ends at the peak learning rate."""
    timed = trainer(pairs(), steps=None, minutes=100, evaluate_every=10**6, compile="off")
    timed.config.schedule = ScheduleConfig(kind="linear", warmup=10**6)
    step = timed.step

    def minute_of_step() -> None:
        timed.mark -= 60  # a minute ago
        step()

    timed.step = minute_of_step  # type: ignore[method-assign]
    train(timed, tmp_path / "timed")
    rates = EventAccumulator(str(tmp_path / "timed")).Reload().Scalars("train/learning_rate")
    assert max(rate.value for rate in rates) > 0.7 * timed.config.optim.lr
    assert 6000 <= timed.progress.seconds < 6600
    assert timed.optimizer.learning_rate < 0.02 * timed.config.optim.lr
    assert timed.progress.evaluated_step == timed.progress.step
    assert timed.budget.end_of_training() == "the time is up (trainer.minutes=100)"
    log = (tmp_path / "timed" / "log.txt").read_text(encoding="utf-8")
    assert re.search(r"^step 1 +[\d.]+ % of 100 min \| loss", log, re.MULTILINE)


def test_a_clock_that_jumps_ahead_spends_no_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a run that ends, or an evaluation that is due or skipped, because the date was corrected."""
    each = trainer(pairs(), steps=6, minutes=30, evaluate_minutes=20)
    date, step = time.time, each.step

    def step_in_another_year() -> None:
        jump = 366 * 86400 * each.progress.step
        monkeypatch.setattr(time, "time", lambda: date() + jump)
        step()

    each.step = step_in_another_year  # type: ignore[method-assign]
    evaluated: list[int] = []
    train(each, tmp_path / "run", lambda step, record: evaluated.append(step) or 1.0)
    assert evaluated == [6]
    assert each.progress.seconds < 1200
    assert len(EventAccumulator(str(tmp_path / "run")).Reload().Scalars("loss")) == 6


def test_evaluations_take_at_most_a_third_of_the_time(tmp_path: Path) -> None:
    """Guards against hours of evaluations between minutes of training, a step without a checkpoint, and a note that
    includes the checkpoint's time."""
    each = trainer(pairs(), steps=9, evaluate_every=1, keep=9)
    evaluated: list[int] = []
    step, save = each.step, each.saver.save

    def evaluate(step: int, record: dict) -> float:
        evaluated.append(step)
        each.mark -= 60  # a minute ago
        return 1.0 / step

    def slow_step() -> None:
        each.mark -= 50
        step()

    def slow_save() -> bool:
        each.mark -= 1000
        return save()

    each.step, each.saver.save = slow_step, slow_save  # type: ignore[method-assign]
    train(each, tmp_path / "slow", evaluate)
    assert evaluated == [1, 4, 7, 9]
    log = (tmp_path / "slow" / "log.txt").read_text(encoding="utf-8")
    assert re.findall(r"^evaluation at step (\d+) skipped: the last one took 60 s", log, re.MULTILINE) == list("23568")
    assert log.count("note: this evaluation took 60 s, 55 % of the time") == 1
    assert [path.name for path in sorted((tmp_path / "slow" / "checkpoints").glob("step-*"))] == [
        f"step-0000000{number}" for number in range(1, 10)
    ]
    assert [line["step"] for line in curve(tmp_path / "slow" / "metrics.jsonl")] == evaluated


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"evaluate_minutes": 1}, {"evaluate_every": 1}])
def test_last_evaluation_runs_when_time_ends_during_save(settings: dict, tmp_path: Path) -> None:
    """Guards against a run without its last evaluation because the previous one was long."""
    long = {"steps": None, "minutes": 100, "evaluate_every": 10**6, "compile": "off"}
    each = trainer(pairs(), **long | settings)
    evaluated: list[int] = []
    step, save = each.step, each.saver.save

    def evaluate(step: int, record: dict) -> float:
        evaluated.append(step)
        each.mark -= 600
        return 1.0 / step

    def slow_step() -> None:
        each.mark -= 60
        step()

    def save_for_ever() -> bool:
        if each.progress.step == 3:
            each.mark -= 6000
        return save()

    each.step, each.saver.save = slow_step, save_for_ever  # type: ignore[method-assign]
    train(each, tmp_path / "slow", evaluate)
    assert evaluated == [1, 3]


def test_an_evaluation_that_was_long_is_remembered_on_resume(tmp_path: Path) -> None:
    """Guards against a run that is preempted again and again and mostly evaluates."""
    folder = tmp_path / "slow"
    slow = trainer(pairs(), steps=2, evaluate_every=1)

    def evaluate(step: int, record: dict) -> float:
        slow.mark -= 60
        return 1.0

    train(slow, folder, evaluate)
    again = resumed(folder, steps=5, evaluate_every=1)
    evaluated: list[int] = []
    go_on(again, folder, lambda log: lambda step, record: evaluated.append(step) or 1.0)
    assert evaluated == [5]


def test_a_warm_up_by_time_takes_the_time_of_training_steps_alone(tmp_path: Path) -> None:
    """Guards against evaluations, checkpoints and compilation after a resume that end warm-up before the model has
    trained."""
    folder, settings = tmp_path / "timed", {"steps": None, "minutes": 1000, "evaluate_every": 2, "compile": "off"}
    factors: list[float] = []

    def timed(each: Trainer) -> Trainer:
        each.config.schedule = ScheduleConfig(kind="constant", warmup=10**6)
        step = each.step

        def minutes_of_step() -> None:
            factors.append(0)
            each.mark -= 60 * (15 if each.progress.step in (0, 4) else 10)
            step()
            factors[-1] = each.optimizer.learning_rate / each.config.optim.lr
            if each.progress.step in (4, 7):
                signal.raise_signal(signal.SIGTERM)

        each.step = minutes_of_step  # type: ignore[method-assign]
        return each

    def evaluation(each: Trainer) -> Evaluate:
        def evaluate(step: int, record: dict) -> float:
            each.mark -= 60 * 15
            return 1.0

        return evaluate

    first = timed(trainer(pairs(), **settings))
    with pytest.raises(Interrupted):
        train(first, folder, evaluation(first))
    second = timed(resumed(folder, **settings))
    with pytest.raises(Interrupted):
        go_on(second, folder, lambda log: evaluation(second))
    # A step takes 10 of the 100 minutes of warm-up; the first one of either start counts as other time does, a fifth.
    assert factors == pytest.approx([0, 0.03, 0.1, 0.2, 0.3, 0.3, 0.4], abs=1e-3)


def test_a_warm_up_by_time_ends_although_evaluations_take_nearly_all_of_it(tmp_path: Path) -> None:
    """Guards against a run that ends at its peak learning rate, without decay."""
    training = trainer(pairs(), steps=None, minutes=1.0, evaluate_every=1)
    training.config.schedule = ScheduleConfig(warmup=10**6)
    rates: list[float] = []

    def evaluate(step: int, record: dict) -> float:
        rates.append(training.optimizer.learning_rate / training.config.optim.lr)
        training.mark -= 4
        return 1.0

    train(training, tmp_path / "run", evaluate)
    assert max(rates) > 0.45
    assert rates[-1] < 0.1
    assert rates[0] < 0.01


def test_a_run_by_the_clock_resumes_where_its_clock_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a learning rate that starts again, or jumps, where a run with a budget in minutes is resumed: with
    a clock that runs equally, the weights are those of the uninterrupted run."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    settings = {"steps": None, "minutes": 10, "evaluate_every": 4, "compile": "off"}

    def by_the_clock(each: Trainer, stop_after: int | None = None) -> Trainer:
        step = each.step

        def step_of_half_a_minute() -> None:
            now[0] += 30
            step()
            if each.progress.step == stop_after:
                signal.raise_signal(signal.SIGTERM)

        each.step = step_of_half_a_minute  # type: ignore[method-assign]
        each.config.schedule = ScheduleConfig(kind="cosine", warmup=0)
        return each

    straight = by_the_clock(trainer(pairs(), **settings))
    train(straight, tmp_path / "straight")
    with pytest.raises(Interrupted):
        train(by_the_clock(trainer(pairs(), **settings), stop_after=7), tmp_path / "stopped")
    now[0] += 1e6
    again = by_the_clock(resumed(tmp_path / "stopped", **settings))
    assert again.progress.seconds == 7 * 30
    go_on(again, tmp_path / "stopped", lambda log: lambda step, record: 1.0 / step)
    assert again.progress.step == straight.progress.step == 20
    assert torch.equal(again.weights.flat_masters, straight.weights.flat_masters)
