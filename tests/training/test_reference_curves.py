"""Reference curves: which loss a recipe's run should have at each step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from training.config import DataConfig, TrainConfig, TrainerConfig
from training.counters import Progress
from training.new_or_resumed_run import compose_run
from training.reference_curves.curve import CURVES, Curve, Point, closing_lines, effective_settings, reference

SHIPPED = sorted(path.stem for path in CURVES.glob("*.json"))
BY_STEP = Curve("r", [Point(100, 10, 2.0), Point(400, 30, 1.0)], {"trainer.steps": 400}, {"train": "a"})


@pytest.mark.parametrize(
    ("step", "expected"), [(100, 2.0), (200, 1.5), (282, 1.2522), (400, 1.0), (99, None), (401, None)]
)
def test_loss_between_evaluations_is_linear_in_log_step(step: int, expected: float | None) -> None:
    """Guards the reference loss against a formula by hand: 200 is half-way between 100 and 400; nothing is
    extrapolated."""
    match = BY_STEP.at(Point(step, 1, 3.0), BY_STEP.settings)
    assert match == (None if expected is None else (step, pytest.approx(expected, abs=1e-4)))


def test_equal_time_budgets_are_compared_at_the_same_share() -> None:
    """Guards against the end of a run on a slow machine compared with the middle of the reference run, whose learning
    rate is still high."""
    budget = {"trainer.steps": None, "trainer.minutes": 1.0}
    curve = Curve("r", [Point(250, 15, 2.0), Point(1000, 61, 1.0)], budget, {"train": "a"})
    slow = [Point(100, 15, 2.0), Point(400, 61, 1.0)]
    assert [curve.at(point, budget) for point in slow] == [(250, 2.0), (1000, 1.0)]
    assert curve.at(slow[0], budget | {"trainer.minutes": 2.0}) is None  # by step: before the first evaluation


def test_unfair_comparison_names_the_settings() -> None:
    """Guards against a difference that a changed setting explains, and against naming settings without an effect."""
    settings = effective_settings(TrainConfig())
    curve = replace(BY_STEP, settings=settings)
    changed = TrainConfig(
        name="x", seed=7, trainer=TrainerConfig(batch_size=3, log_every=1, threads=1), data=DataConfig(path="elsewhere")
    )
    assert curve.differences(settings, curve.data) == []
    different = curve.differences(effective_settings(changed), {"train": "b"})
    assert different == ["trainer.batch_size=3", "other train data"]


@pytest.mark.parametrize("recipe", SHIPPED)
def test_a_shipped_curve_is_that_of_its_recipe(recipe: str) -> None:
    """Guards against a recipe that has changed since its reference run: make a new one, or delete the curve."""
    curve = reference(recipe)
    assert curve is not None
    path = [] if curve.settings["data.source"] == "primer" else ["data.path=x"]
    composed = compose_run([f"+experiment={recipe}", *path])
    assert composed.problems == []
    assert curve.differences(effective_settings(composed.config), curve.data) == []
    assert curve.points[-1].loss == min(point.loss for point in curve.points)


def test_a_run_of_a_recipe_ends_with_the_loss_of_its_reference_run() -> None:
    """Guards the last lines of a run: the loss of the reference run at the same step, settings that differ, and a step
    without evaluation around it."""
    recipe = "wikitext2"
    curve = reference(recipe)
    assert curve is not None
    config = compose_run([f"+experiment={recipe}", "data.path=x"]).config
    point = curve.points[1]
    progress = Progress(evaluated_step=point.step, evaluated_seconds=point.seconds, evaluated_loss=point.loss)
    line = f"val loss {point.loss:.4f} at step {point.step:,}; the reference run of {recipe} had {point.loss:.4f}"
    assert closing_lines(config, curve.data, progress) == [line]
    other = replace(config, optim=replace(config.optim, lr=0.5))
    assert closing_lines(other, curve.data, progress) == [f"{line} (not like with like: optim.lr=0.5)"]
    (before,) = closing_lines(config, curve.data, replace(progress, evaluated_step=1, evaluated_seconds=1e-9))
    assert f"the reference run of {recipe} has no evaluation around that step" in before
    assert closing_lines(config, curve.data, Progress()) == []
    assert closing_lines(TrainConfig(), curve.data, progress) == []
