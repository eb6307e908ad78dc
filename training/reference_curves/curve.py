"""The curve of a reference run, and the comparison of another run with it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from training.config import TrainConfig
from training.counters import Progress

CURVES = Path(__file__).parent / "curves"

WITHOUT_EFFECT = (
    *("name", "title", "licence", "runs", "resume", "experiment", "seed", "attention"),
    *("data.path", "data.valid_path", "data.test_path", "data.cache"),
    *("trainer.device", "trainer.threads", "trainer.compile", "trainer.shard", "trainer.recompute"),
    *("trainer.deterministic", "trainer.profile", "trainer.find_nan", "trainer.keep"),
    *("trainer.log_every", "trainer.samples", "trainer.test", "trainer.beam_size", "trainer.length_penalty"),
    *("trainer.evaluate_every", "trainer.evaluate_minutes", "trainer.first_evaluation_minutes"),
    *("trainer.limit_evaluations", "trainer.evaluate_sentences", "trainer.early_weights"),
)
"""Settings, and groups of settings, that do not change what the validation loss of a step measures, apart from noise.
The content of the data is compared by its hash."""


@dataclass(frozen=True)
class Point:
    """One evaluation."""

    step: int
    seconds: float
    loss: float
    """Validation loss in nats per token."""


@dataclass(frozen=True)
class Curve:
    """The evaluations of a reference run, with what makes another run comparable."""

    recipe: str
    points: Sequence[Point]
    settings: Mapping[str, Any]
    """All settings with an effect, by dotted key."""
    data: Mapping[str, str]
    """Hashes of the tokenised splits `train` and `valid`."""

    def at(self, point: Point, settings: Mapping[str, Any]) -> tuple[float, float] | None:
        """Return (step, loss) where a point of a run with these settings is compared: at the same step or, if both runs
        have the same budget in minutes, after the same share of it, because the learning rate follows the budget.

        Between two evaluations the loss is interpolated linearly in the logarithm of the step or share, as curves of
        losses bend less then; None outside of them.
        """
        minutes = time_budget(self.settings)
        budget = minutes if minutes == time_budget(settings) else None
        wanted = place(point, budget)
        for known in self.points:
            if place(known, budget) == wanted:
                return known.step, known.loss
        for before, after in pairwise(self.points):
            low, high = place(before, budget), place(after, budget)
            if low < wanted < high:
                share = math.log(wanted / low) / math.log(high / low)
                return (
                    before.step + (after.step - before.step) * (wanted - low) / (high - low),
                    before.loss + (after.loss - before.loss) * share,
                )
        return None

    def differences(self, settings: Mapping[str, Any], data: Mapping[str, str]) -> list[str]:
        """Return the settings of another run that make the comparison unfair, as `key=value`, and `other data`."""
        default = all_settings(TrainConfig())  # for settings that are newer than the reference run
        keys = dict.fromkeys((*self.settings, *settings))
        mine, theirs = default | dict(self.settings), default | dict(settings)
        different = [f"{key}={theirs.get(key)}" for key in keys if mine.get(key) != theirs.get(key)]
        if any(key.startswith(("data.", "tokenizer.")) for key in different):
            return different
        return [*different, *(f"other {split} data" for split in self.data if self.data[split] != data.get(split))]


def time_budget(settings: Mapping[str, Any]) -> float | None:
    """Return the minutes of a run that is limited by time alone, else None."""
    return settings.get("trainer.minutes") if settings.get("trainer.steps") is None else None


def place(point: Point, minutes: float | None) -> float:
    """Return where a point is compared: its step, or the share of the time budget that is used."""
    return point.step if minutes is None else min(1.0, point.seconds / (60 * minutes))


def effective_settings(config: TrainConfig) -> dict[str, Any]:
    """Return all settings that may change the loss, by dotted key."""
    unused = {"trainer.batch_size"} if config.task == "translate" else {"data.batch_tokens", "data.length_multiple"}
    if config.data.source != "primer":
        unused |= {"data.sentences", "data.stories"}
    return {key: value for key, value in all_settings(config).items() if key not in unused}


def all_settings(config: object, prefix: str = "") -> dict[str, Any]:
    """Return the settings of a config by dotted key, except those of `WITHOUT_EFFECT`."""
    settings: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type]
        key, value = prefix + field.name, getattr(config, field.name)
        if key not in WITHOUT_EFFECT:
            settings |= all_settings(value, f"{key}.") if is_dataclass(value) else {key: value}
    return settings


def reference(recipe: str | None) -> Curve | None:
    """Return the reference curve of a recipe, if there is one."""
    path = next((path for path in CURVES.glob("*.json") if path.stem == recipe), None)
    if path is None:
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    points = [Point(line["step"], line["seconds"], line["val/loss"]) for line in content["evaluations"]]
    return Curve(content["recipe"], points, content["settings"], content["data"])


def closing_lines(config: TrainConfig, data: Mapping[str, str], progress: Progress) -> list[str]:
    """Return one line for the end of a recipe's run, on the last evaluation; none without a reference curve."""
    curve = reference(config.experiment)
    if curve is None or progress.evaluated_loss is None:
        return []
    point = Point(progress.evaluated_step, progress.evaluated_seconds, progress.evaluated_loss)
    settings = effective_settings(config)
    different = curve.differences(settings, data)
    unlike = f" (not like with like: {', '.join(different)})" if different else ""
    match = curve.at(point, settings)
    if match is None:
        last = curve.points[-1]
        return [
            f"val loss {point.loss:.4f} at step {point.step:,}; the reference run of {curve.recipe} has no evaluation"
            f" around that step, and ended with {last.loss:.4f} at step {last.step:,}{unlike}"
        ]
    step, loss = match
    where = "" if round(step) == point.step else f" at step {step:,.0f}, after the same share of the time"
    return [
        f"val loss {point.loss:.4f} at step {point.step:,}; the reference run of {curve.recipe} had {loss:.4f}{where}"
        f"{unlike}"
    ]
