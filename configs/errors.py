"""The exception for errors that the user can fix."""

from __future__ import annotations

import math


class UserError(Exception):
    """Invalid config, data, file or checkpoint; each argument names the key or file, and the fix. Exit code 2."""


DIVERGED = "lower optim.lr, lengthen schedule.warmup or set optim.clip=1"
"""Advice for a run that has diverged."""


def check_finite(what: str, value: float | None, step: int) -> None:
    """Raise UserError, with suggested fixes, if a run has diverged. None: not measured."""
    if value is not None and not math.isfinite(value):
        raise UserError(
            f"the {what} became {value} by step {step}: {DIVERGED}; "
            "the best checkpoint, if there is one, is from an earlier step"
        )
