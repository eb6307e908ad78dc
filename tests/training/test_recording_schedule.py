"""When attention maps are recorded between evaluations."""

from __future__ import annotations

from itertools import pairwise

import pytest

from attention_maps.config import AttentionConfig
from training.budget_and_schedules import EVENLY, Budget, RecordingSchedule
from training.config import TrainerConfig
from training.counters import Progress


def recorded_at(
    trainer: TrainerConfig,
    attention: AttentionConfig | None = None,
    *,
    step_seconds: float = 1.0,
    recording_seconds: float = 0.001,
    progress: Progress | None = None,
    stop: int | None = None,
) -> list[int]:
    """Return the steps at which a run records between evaluations; `stop`: it ends after this number of steps."""
    progress = progress or Progress()
    budget, result = Budget(trainer, progress), []
    schedule = RecordingSchedule(attention or AttentionConfig(), budget)
    while True:
        if budget.evaluation_is_due():
            progress.count_evaluation(1.0, 1.0, 1.0)
            schedule.count(0.0)
        if schedule.is_due():
            result.append(progress.step)
            progress.seconds += recording_seconds
            schedule.count(recording_seconds)
        if budget.end_of_training() or progress.step == stop:
            return result
        progress.step += 1
        progress.seconds += step_seconds


def test_recordings_begin_with_powers_of_two_and_are_then_even() -> None:
    """Guards the early steps, in which heads form, and the number of positions of the tab's slider."""
    result = recorded_at(TrainerConfig(steps=1800, evaluate_every=450))
    assert result[:8] == [0, 1, 2, 4, 8, 16, 30, 60]  # 32 is already in the even part
    assert result[7:] == [step for step in range(60, 1800, 30) if step % 450]


def test_a_budget_in_minutes_gives_as_many() -> None:
    """Guards the demo, whose number of steps is not known in advance."""
    trainer = TrainerConfig(steps=None, minutes=3, evaluate_minutes=1)
    result = recorded_at(trainer, step_seconds=0.1)
    assert result[:7] == [0, 1, 2, 4, 8, 16, 30]
    assert EVENLY <= len(result) + 3 <= EVENLY + 8  # three evaluations record by themselves


def test_a_number_of_steps_replaces_the_even_part() -> None:
    """Guards `attention.every`, and its 0, which records at evaluations alone."""
    trainer = TrainerConfig(steps=50, evaluate_every=25)
    assert recorded_at(trainer, AttentionConfig(every=10)) == [0, 1, 2, 4, 8, 10, 20, 30, 40]
    assert recorded_at(trainer, AttentionConfig(every=0)) == []
    assert recorded_at(trainer, AttentionConfig(enabled=False)) == []


def test_slow_recordings_take_a_hundredth_of_the_time() -> None:
    """Guards the training time of large models on a CPU, whose recordings take seconds."""
    trainer = TrainerConfig(steps=1000, evaluate_every=1000)
    result = recorded_at(trainer, recording_seconds=2.0)
    assert result[:3] == [0, 1, 2]  # half of the time may be used in advance
    assert 4 <= len(result) <= 6  # 2 s each, in about 1,000 s
    unlimited = TrainerConfig(steps=1000, evaluate_every=1000, limit_evaluations=False)
    assert len(recorded_at(unlimited, recording_seconds=2.0)) >= EVENLY


def test_recordings_too_slow_for_all_positions_are_spread_evenly() -> None:
    """Guards against a slider without a position in the first half of a run, because early steps used its time."""
    trainer = TrainerConfig(steps=None, minutes=3.25, evaluate_minutes=1.1)
    result = recorded_at(trainer, step_seconds=0.1, recording_seconds=0.06)
    assert 28 <= len(result) <= 34  # 0.06 s each, in 195 s
    assert result[:6] == [0, 1, 2, 4, 8, 16]
    gaps = [later - earlier for earlier, later in pairwise(result[5:])]
    assert max(gaps) <= 1.6 * min(gaps)


@pytest.mark.parametrize("stop", [3, 16, 45, 60, 77])
def test_a_resumed_run_records_the_same_steps(stop: int) -> None:
    """Guards against missing or repeated recordings after a resume from a checkpoint of any step."""
    trainer = TrainerConfig(steps=600, evaluate_every=60)
    before, resumed = Progress(), Progress()
    result = recorded_at(trainer, progress=before, stop=stop)
    resumed.load_state_dict(before.state_dict())
    result += recorded_at(trainer, progress=resumed)
    assert result == recorded_at(trainer)
