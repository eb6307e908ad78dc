"""Learning-rate schedules."""

import itertools
import math

import pytest

from training.budget_and_schedules import scheduled
from training.config import ScheduleConfig

STEPS = 1000


def curve(**settings: object) -> list[float]:
    config = ScheduleConfig(**settings)  # type: ignore[arg-type]
    return [scheduled(config, step, step / STEPS) for step in range(STEPS + 1)]


@pytest.mark.parametrize("kind", ["cosine", "linear", "inverse_sqrt", "wsd", "constant"])
def test_warm_up_rises_in_equal_steps_from_above_zero_to_the_peak(kind: str) -> None:
    """Guards against a wasted first update at rate 0, and a jump at the end of warm-up."""
    factors = curve(kind=kind, warmup=99)
    assert factors[0] == pytest.approx(0.01)
    assert factors[98] == pytest.approx(0.99)
    rises = [b - a for a, b in itertools.pairwise(factors[:99])]
    assert min(rises) == pytest.approx(max(rises))
    assert max(factors) <= 1


def test_cosine_is_half_way_down_in_the_middle_and_ends_at_its_final_share() -> None:
    """Guards against a cosine over half or twice the budget."""
    factors = curve(kind="cosine", warmup=0, final=0.1)
    assert factors[500] == pytest.approx(0.55)
    assert factors[250] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 4)))
    assert factors[-1] == pytest.approx(0.1)


def test_linear_decays_evenly_to_its_final_share() -> None:
    """Guards against a linear schedule that ignores `final`."""
    factors = curve(kind="linear", warmup=0, final=0.2)
    assert [factors[0], factors[500], factors[-1]] == pytest.approx([1, 0.6, 0.2])


def test_inverse_square_root_halves_when_the_steps_quadruple() -> None:
    """Guards against a decay that does not start at the peak of the warm-up."""
    factors = curve(kind="inverse_sqrt", warmup=99)
    assert factors[99] == pytest.approx(1)
    assert factors[399] == pytest.approx(0.5)


def test_wsd_stays_at_the_peak_until_the_decay_begins() -> None:
    """Guards against a decay that begins too early or does not finish."""
    factors = curve(kind="wsd", warmup=10, decay=0.2, final=0.0)
    assert factors[10:801] == pytest.approx([1.0] * 791)
    assert factors[900] == pytest.approx(0.5)
    assert factors[-1] == pytest.approx(0)


def test_progress_beyond_the_budget_never_gives_a_negative_rate() -> None:
    """Guards against a last step after the end of the budget at a rising rate."""
    for kind in ("cosine", "linear", "wsd"):
        assert scheduled(ScheduleConfig(kind=kind, warmup=0), 5000, 1.5) == pytest.approx(0)


def timed(steps: int, **settings: object) -> list[float]:
    """Return the factors of a run with a budget in minutes and this number of steps."""
    config = ScheduleConfig(**settings)  # type: ignore[arg-type]
    return [scheduled(config, step, step / steps, step / steps) for step in range(steps + 1)]


@pytest.mark.parametrize("kind", ["cosine", "linear", "inverse_sqrt", "wsd", "constant"])
def test_with_minutes_a_tenth_of_the_time_ends_the_warm_up(kind: str) -> None:
    """Guards against a half-minute run that warms up for 100 of its 168 steps and drops from the peak within the
    next ten."""
    factors = timed(168, kind=kind, warmup=100)
    peak = factors.index(max(factors))
    assert 15 <= peak <= 17
    assert factors[peak] > 0.95
    assert max(abs(b - a) for a, b in itertools.pairwise(factors)) < 0.1
    if kind not in ("constant", "inverse_sqrt"):
        assert factors[-1] == pytest.approx(0)


@pytest.mark.parametrize("kind", ["cosine", "linear", "inverse_sqrt", "wsd", "constant"])
def test_a_warm_up_that_is_shorter_anyway_is_the_same_with_minutes(kind: str) -> None:
    """Guards against recipes with a budget in minutes whose curve depends on the speed of the machine."""
    assert timed(STEPS, kind=kind, warmup=50) == curve(kind=kind, warmup=50)
