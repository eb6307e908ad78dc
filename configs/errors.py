"""The exception for errors that the user can fix, and the error of a run that has diverged."""

from __future__ import annotations

import math

from attention_maps.base.errors import UserError as UserError

DIVERGED = "lower optim.lr, lengthen schedule.warmup or set optim.clip=1"
"""Advice for a run that has diverged."""


def check_finite(what: str, value: float | None, step: int) -> None:
    """Raise UserError, with suggested fixes, if a run has diverged. None: not measured."""
    if value is not None and not math.isfinite(value):
        raise UserError(
            f"the {what} became {value} by step {step}: {DIVERGED}; "
            "the best checkpoint, if there is one, is from an earlier step"
        )
