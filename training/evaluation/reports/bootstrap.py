"""Bootstrap intervals and paired tests of figures that are ratios of sums over units, such as documents.

sacreBLEU has its own for translation scores (Koehn 2004, "Statistical Significance Tests for Machine Translation
Evaluation"), which `translation.py` uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

SEED = 12345
"""As in sacreBLEU."""


@dataclass(frozen=True)
class Figure:
    """One score, with its 95 % interval if it has one."""

    value: float
    low: float | None = None
    high: float | None = None
    signature: str | None = None
    """Of sacreBLEU."""


@dataclass(frozen=True)
class Difference:
    """Difference of a score between two systems: positive if that of the first is higher."""

    value: float
    p_value: float
    """Fraction of resamples whose difference is as far from their mean as the observed one from 0."""


def resampled(sums: list[Numbers], resamples: int) -> Iterator[list[float]]:
    """Yield the totals of each of `sums` (one value per unit) over units drawn with replacement; the same draws for all
    of them, and in every call with as many units."""
    random = np.random.default_rng(SEED)
    units = len(sums[0])
    for _ in range(resamples):
        counts = np.bincount(random.integers(units, size=units), minlength=units)
        yield [float(counts @ values) for values in sums]


def interval(values: list[float]) -> tuple[float, float]:
    """Return the bounds of the middle 95 %."""
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def p_value(difference: float, resampled_differences: list[float]) -> float:
    """Return how probable a difference as large is, if only the choice of the units makes one (two-sided).

    The resampled differences, shifted to mean 0, show what that choice makes. At least 1 / (resamples + 1).
    """
    values = np.asarray(resampled_differences)
    extreme = int((np.abs(values - values.mean()) >= abs(difference)).sum()) if difference else len(values)
    return (extreme + 1) / (len(values) + 1)


def verdict(what: str, first: str, second: str, better: float, unit: str, probability: float) -> str:
    """Return a sentence on a paired test. better: by how much the first is better, in `unit`."""
    if better == 0:
        return f"{what}: {first} and {second} are equal"
    winner, loser = (first, second) if better > 0 else (second, first)
    share = f"{100 * probability:.2g} %" if probability < 0.995 else "nearly all"
    return (
        f"{what}: {winner} is {abs(better):.3g} {unit} better than {loser}; chance alone makes such a difference in"
        f" {share} of the resamples (p = {probability:.3f}): {'' if probability < 0.05 else 'not '}significant"
    )
