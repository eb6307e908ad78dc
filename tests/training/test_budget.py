"""When a run evaluates."""

from __future__ import annotations

import pytest

from training.budget_and_schedules import Budget, evaluation_interval
from training.config import TrainerConfig
from training.counters import Progress


def evaluated_at(trainer: TrainerConfig, minutes: float) -> list[float]:
    """Return the minutes at which a run of this length evaluates, with steps of one second and evaluations of two."""
    progress, result = Progress(), []
    budget = Budget(trainer, progress)
    while progress.seconds < 60 * minutes:
        progress.step += 1
        progress.seconds += 1
        if budget.evaluation_is_due():
            result.append(round(progress.seconds / 60, 2))
            progress.seconds += 2
            progress.count_evaluation(1.0, 1.0, 2.0)
    return result


def test_evaluations_begin_close_together_and_spread_out() -> None:
    """Guards against a demo that shows nothing for a minute, or spends its last minutes on evaluations."""
    early = TrainerConfig(steps=None, minutes=4, evaluate_minutes=1, first_evaluation_minutes=0.25)
    assert evaluated_at(early, 4) == [0.25, 0.57, 1.2, 2.23, 3.27, 4.0]


def test_without_a_first_one_the_intervals_are_equal() -> None:
    """Guards against different results of the other recipes, which depend on when they evaluate."""
    assert evaluated_at(TrainerConfig(steps=None, minutes=4, evaluate_minutes=1), 4) == [1.0, 2.03, 3.07, 4.0]


def test_the_schedule_of_steps_knows_no_minutes() -> None:
    """Guards against a run with a budget in steps whose evaluations depend on the clock."""
    trainer = TrainerConfig(steps=90, evaluate_every=30, first_evaluation_minutes=0.1)
    assert evaluated_at(trainer, 1.6) == [0.5, 1.03, 1.57]


@pytest.mark.parametrize(
    ("last", "first", "interval"), [(0, 0.5, 0.5), (0.5, 0.5, 0.5), (2, 0.5, 2), (9, 0.5, 5), (9, None, 5), (0, 7, 5)]
)
def test_an_interval_is_a_function_of_the_last_evaluation_alone(
    last: float, first: float | None, interval: float
) -> None:
    """Guards against a resumed run whose evaluations start again at short intervals."""
    assert evaluation_interval(last, 5, first) == interval


def test_evaluations_without_a_limit_do_not_depend_on_the_clock() -> None:
    """Guards a comparison of two runs against evaluations that one of them skips because its machine was busy."""
    progress = Progress(step=30, seconds=100.0, evaluation_seconds=90.0)
    limited, unlimited = (TrainerConfig(steps=90, limit_evaluations=limit) for limit in (True, False))
    assert Budget(limited, progress).too_soon(10.0)
    assert Budget(unlimited, progress).too_soon(10.0) is None
