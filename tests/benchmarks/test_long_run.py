"""Long runs: the rule for flat, and a short real measurement."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.training.long_run import LongRunSettings, judge, long_run

STEPS = range(0, 20_000, 100)


def noisy(level: float, noise: float, slope: float = 0.0) -> list[float]:
    """Return values around a line; slope: rise over all steps."""
    chance = random.Random(1)
    return [level + slope * step / STEPS[-1] + chance.gauss(0, noise) for step in STEPS]


def test_noise_and_outliers_are_flat() -> None:
    """Guards against a verdict that depends on single slow steps."""
    assert judge(STEPS, noisy(300, 3), 0.01).flat
    spikes = noisy(5, 0.1)
    spikes[-10:] = [50.0] * 10
    assert judge(STEPS, spikes, 0.01).flat
    assert judge(STEPS, [11] * len(STEPS), 0.01).flat
    assert judge(STEPS, noisy(300, 1, slope=-50), 0.01).flat, "what falls does not leak"


@pytest.mark.parametrize(
    "values",
    [
        noisy(300, 1, slope=10),  # 0.5 kB a step
        [11 + step // 5000 for step in STEPS],  # a file handle every 5,000 steps
        [300 + 4 * (step // 2000) for step in STEPS],  # 4 MB for each evaluation
    ],
)
def test_a_leak_is_not_flat(values: list[float]) -> None:
    """Guards against a verdict that is always good."""
    assert not judge(STEPS, values, 0.02).flat


@pytest.mark.slow
def test_a_run_is_watched_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a measurement that samples nothing, e.g. because the format of log lines has changed."""
    settings = LongRunSettings(steps=120, evaluations=2, to=str(tmp_path), picture=str(tmp_path / "picture.svg"))
    with suppress(SystemExit):  # so few samples may rise
        long_run(settings)
    text = capsys.readouterr().out
    assert re.search(r"gpt: 1[012]0 steps, \d+ samples", text), text
    assert "translate: 1" in text
    assert "after 12 log lines and 2 evaluations: log.txt" in text
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8").count("<path") > 8
    runs = json.loads((tmp_path / "long_run.json").read_text(encoding="utf-8"))["runs"]
    assert all(sample["memory_mb"] > 50 for run in runs for sample in run["samples"])
    assert all(run["files"]["event files"] > 1000 for run in runs)
