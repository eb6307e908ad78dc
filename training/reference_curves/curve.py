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

KEPT = ("step", "seconds", "tokens", "train/loss", "val/loss", "val/bits_per_byte", "val/chrf", "val/bleu")
"""Entries of metrics.jsonl that a curve contains, if the run has them."""

WITHOUT_EFFECT = (
    *("name", "runs", "resume", "experiment", "seed", "attention"),
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
    """The evaluations of a run, with what makes them comparable."""

    recipe: str
    points: Sequence[Point]
    settings: Mapping[str, Any]
    """All settings with an effect, by dotted key."""
    data: Mapping[str, str]
    """Hashes of the tokenised splits `train` and `valid`."""
    about: Mapping[str, Any]
    """Machine, commit, threads and so on of a reference run."""

    @property
    def minutes(self) -> float | None:
        """Return the budget of a run that is limited by time alone."""
        return self.settings.get("trainer.minutes") if self.settings.get("trainer.steps") is None else None

    def place(self, point: Point, by_time: bool) -> float:
        """Return where a point is compared: its step, or the share of the time budget that is used."""
        return min(1.0, point.seconds / (60 * (self.minutes or math.inf))) if by_time else point.step

    def at(self, place: float, by_time: bool) -> tuple[float, float] | None:
        """Return (step, loss) at a place, interpolated between the two nearest evaluations; None outside of them.

        The loss is interpolated linearly in the logarithm of the place, as curves of losses bend less then.
        """
        for point in self.points:
            if self.place(point, by_time) == place:
                return point.step, point.loss
        for before, after in pairwise(self.points):
            low, high = self.place(before, by_time), self.place(after, by_time)
            if low < place < high:
                share = math.log(place / low) / math.log(high / low)
                return (
                    before.step + (after.step - before.step) * (place - low) / (high - low),
                    before.loss + (after.loss - before.loss) * share,
                )
        return None

    def compare(self, other: Curve) -> list[tuple[Point, tuple[float, float] | None]]:
        """Return each point of another run with (step, loss) of this one at the same place: the same step or, if both
        have the same budget in minutes, the same share of it, because the learning rate follows the budget."""
        by_time = self.minutes is not None and self.minutes == other.minutes
        return [(point, self.at(other.place(point, by_time), by_time)) for point in other.points]

    def differences(self, other: Curve) -> list[str]:
        """Return the settings of another run that make the comparison unfair, as `key=value`, and `other data`."""
        default = all_settings(TrainConfig())  # for settings that a later version has added
        keys = dict.fromkeys((*self.settings, *other.settings))
        mine, theirs = default | dict(self.settings), default | dict(other.settings)
        found = [f"{key}={theirs.get(key)}" for key in keys if mine.get(key) != theirs.get(key)]
        data = [f"other {split} data" for split in self.data if self.data[split] != other.data.get(split)]
        return [*found, *(data if not any(key.startswith(("data.", "tokenizer.")) for key in found) else [])]


def effective_settings(config: TrainConfig) -> dict[str, Any]:
    """Return all settings that may change the loss, by dotted key."""
    unused = {"trainer.batch_size"} if config.task == "translate" else {"data.batch_tokens", "data.length_multiple"}
    if config.data.source != "primer":
        unused |= {"data.sentences", "data.stories"}
    return {key: value for key, value in all_settings(config).items() if key not in unused}


def all_settings(config: object, prefix: str = "") -> dict[str, Any]:
    """Return the settings of a config by dotted key, except those of `WITHOUT_EFFECT`."""
    found: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type]
        key, value = prefix + field.name, getattr(config, field.name)
        if key not in WITHOUT_EFFECT:
            found |= all_settings(value, f"{key}.") if is_dataclass(value) else {key: value}
    return found


def reference(recipe: str | None) -> Curve | None:
    """Return the reference curve of a recipe, if there is one."""
    path = next((path for path in CURVES.glob("*.json") if path.stem == recipe), None)
    if path is None:
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    points = [Point(each["step"], each["seconds"], each["val/loss"]) for each in content.pop("evaluations")]
    return Curve(content.pop("recipe"), points, content.pop("settings"), content.pop("data"), content)


def to_json(curve: Curve, evaluations: Sequence[Mapping[str, Any]]) -> str:
    """Return the content of a curve's file. evaluations: the lines of metrics.jsonl."""
    kept = [
        {key: round(each[key], 5) if isinstance(each[key], float) else each[key] for key in KEPT if key in each}
        for each in evaluations
    ]
    lines = ",\n  ".join(json.dumps(each) for each in kept)
    content = {"recipe": curve.recipe, **curve.about, "data": dict(curve.data), "settings": dict(curve.settings)}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return f'{text[:-2]},\n "evaluations": [\n  {lines}\n ]\n}}\n'


def closing_lines(config: TrainConfig, data: Mapping[str, str], progress: Progress) -> list[str]:
    """Return one line for the end of a recipe's run, on the last evaluation; none without a reference curve."""
    curve = reference(config.experiment)
    if curve is None or progress.evaluated_loss is None:
        return []
    point = Point(progress.evaluated_step, progress.evaluated_seconds, progress.evaluated_loss)
    mine = Curve(curve.recipe, [point], effective_settings(config), {split: data[split] for split in curve.data}, {})
    ((_, found),) = curve.compare(mine)
    different = curve.differences(mine)
    unlike = f" (not like with like: {', '.join(different)})" if different else ""
    if found is None:
        last = curve.points[-1]
        return [
            f"val loss {point.loss:.4f} at step {point.step:,}; the reference run of {curve.recipe} has no evaluation"
            f" around that step, and ended with {last.loss:.4f} at step {last.step:,}{unlike}"
        ]
    step, loss = found
    where = "" if round(step) == point.step else f" at step {step:,.0f}, after the same share of the time"
    return [
        f"val loss {point.loss:.4f} at step {point.step:,}; the reference run of {curve.recipe} had {loss:.4f}{where}"
        f"{unlike}"
    ]
