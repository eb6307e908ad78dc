"""Model the peak memory of training by a formula with four constants, fitted to measured peaks.

    bytes = fixed + b P + N (L C k + V c) + B H T² L s

P: parameters, b bytes each (20 with bf16 weights: weight 2, gradient 2 and 4, master weight 4, AdamW's moments 8; also
20 in float32: weight 4, gradient 4 and 4, moments 8). N = B T: tokens per step. k: bytes stored for the backward pass
per token, layer and unit of width. c: bytes per token and vocabulary entry (logits and their gradient). s: bytes per
attention weight (near 0 if a fused kernel stores none). fixed: Python, torch and the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.report import markdown_table, number
from benchmarks.results import Result

Facts = Mapping[str, float]
"""Mapping with the keys parameters, bytes_per_parameter, layers, width, heads, context, batch_size, vocabulary."""


@dataclass(frozen=True)
class MemoryModel:
    """Fitted constants, in bytes."""

    fixed: float
    per_activation: float
    """k."""
    per_logit: float
    """c."""
    per_weight: float
    """s."""

    def bytes(self, facts: Facts) -> float:
        """Return the peak memory of training in bytes."""
        constants = (self.fixed, self.per_activation, self.per_logit, self.per_weight)
        return weights(facts) + sum(constant * count for constant, count in zip(constants, counts(facts), strict=True))


def weights(facts: Facts) -> float:
    """Return the bytes of parameters, gradients and optimiser state."""
    return facts["parameters"] * facts["bytes_per_parameter"]


def counts(facts: Facts) -> tuple[float, float, float, float]:
    """Return the factors of the four constants: 1, N L C, N V, B H T² L."""
    tokens = facts["batch_size"] * facts["context"]
    attention = facts["batch_size"] * facts["heads"] * facts["context"] ** 2 * facts["layers"]
    return 1.0, tokens * facts["layers"] * facts["width"], tokens * facts["vocabulary"], attention


def fit(result: Result) -> MemoryModel:
    """Fit the constants by least squares on relative errors, constrained to be non-negative."""
    rows = [row for row in result.rows if row.measured]
    measured = np.array([row.peak_memory for row in rows], dtype=float)
    matrix = np.array([counts(row.facts) for row in rows]) / measured[:, None]
    wanted = 1 - np.array([weights(row.facts) for row in rows]) / measured
    scale = np.abs(matrix).max(axis=0)
    free = list(range(matrix.shape[1]))
    while True:  # set the most negative constant to zero and refit the other constants
        found = np.linalg.lstsq(matrix[:, free] / scale[free], wanted, rcond=None)[0] / scale[free]
        if (found >= 0).all() or len(free) == 1:
            break
        free.remove(free[int(found.argmin())])
    constants = np.zeros(matrix.shape[1])
    constants[free] = found.clip(min=0)
    return MemoryModel(*constants.tolist())


def memory_tables(result: Result) -> str:
    """Return the constants, then a table of measured and computed memory for every model."""
    model = fit(result)
    constants = f"k = {model.per_activation:.1f}, c = {model.per_logit:.1f}, s = {model.per_weight:.1f}"
    rows = []
    for row in (row for row in result.rows if row.measured):
        computed = model.bytes(row.facts)
        sizes = (f"{row.peak_memory / 1e6:,.0f}", f"{computed / 1e6:,.0f}")
        rows.append((row.name, number(row.rate), *sizes, f"{100 * (computed / row.peak_memory - 1):+.0f} %"))
    headings = ("training", f"{result.unit}/s", "measured, MB", "computed, MB", "error")
    return f"Fitted: fixed {model.fixed / 1e6:.0f} MB, {constants} bytes.\n\n{markdown_table(headings, rows)}"
