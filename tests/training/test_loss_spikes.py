"""The warning that the training loss jumps."""

import math
import random
from pathlib import Path

import pytest

from tests.training.tiny_trainer import pairs, train, trainer
from training.loss_spikes import LossSpikes


def warnings(losses: list[float]) -> list[int]:
    """Return the numbers of the log lines that get a warning."""
    spikes = LossSpikes()
    return [number for number, loss in enumerate(losses) if spikes.report(number, loss, 1.0)]


def noisy(seed: int, count: int = 400) -> list[float]:
    """Return a curve that falls from 5 to 2 with noise of 3 %."""
    chance = random.Random(seed)
    return [(2 + 3 * math.exp(-n / 60)) * chance.gauss(1, 0.03) for n in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_spike(seed: int) -> None:
    """Guards against warnings that users learn to ignore."""
    assert warnings(noisy(seed)) == []


SHAKESPEARE = """
3.979 3.493 3.056 2.772 2.604 2.495 2.432 2.344 2.307 2.24 2.216 2.168 2.124 2.099 2.073 2.042 2.029 2.032 1.977 1.996
1.951 1.981 1.961 1.964 1.954
"""
"""Training losses of nanoGPT's model size on Tiny Shakespeare, means of 20 steps."""


def test_a_real_curve_has_no_spikes() -> None:
    """Guards against false alarms on a curve whose noise is not that of a formula."""
    assert warnings([*map(float, SHAKESPEARE.split())]) == []


@pytest.mark.parametrize("height", [1.4, 2.0, 100.0])
def test_a_spike_is_reported_once_where_it_begins(height: float) -> None:
    """Guards against a divergence that nobody notices, and against one line for each step of it."""
    losses = noisy(1)
    losses[200:206] = [loss * height for loss in losses[200:206]]
    losses[300] *= 2
    assert warnings(losses) == [200, 300]


def test_a_constant_loss_may_rise_a_little() -> None:
    """Guards against a deviation of 0, above which everything is a spike."""
    assert warnings([1e-3] * 30 + [1.05e-3] * 30) == []


def test_the_warning_is_in_the_log_of_a_run(tmp_path: Path) -> None:
    """Guards against a rule that no run applies."""
    each = trainer(pairs(), steps=20)
    group = each.optimizer.optimizers[0].param_groups[0]

    def evaluate(step: int, record: dict) -> float:
        group["lr"] = 5.0 if step == 15 else 1e-3
        return 1.0

    each.config.trainer.evaluate_every = 5
    train(each, tmp_path / "run", evaluate)
    lines = [
        line for line in (tmp_path / "run" / "log.txt").read_text().splitlines() if line.startswith("warning: the")
    ]
    assert len(lines) == 1
    assert lines[0].startswith("warning: the loss jumps at step 17: ")
    assert "; gradient norm " in lines[0]
