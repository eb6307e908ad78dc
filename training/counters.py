"""Counters of a run, and totals since the last log line or evaluation; both are saved in checkpoints."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # invalid command lines are rejected without importing torch
    from torch import Tensor


@dataclass
class Progress:
    """Counters of a run, all plain numbers."""

    step: int = 0
    """Optimiser steps completed."""
    tokens: int = 0
    """Non-padding tokens trained on (source and target)."""
    seconds: float = 0.0
    """Wall-clock time in the training loop summed over all starts, including evaluations."""
    step_seconds: float = 0.0
    """Part of `seconds` spent on training steps, excluding the first step of each start, which may compile."""
    evaluated_step: int = 0
    """Step of the last evaluation."""
    evaluated_seconds: float = 0.0
    """`seconds` at the last evaluation, run or skipped."""
    evaluated_loss: float | None = None
    """Validation loss of the last evaluation, nats per token."""
    evaluation_seconds: float = 0.0
    """Duration of the last evaluation, excluding the checkpoint before it."""
    training_loss: float | None = None
    """Training loss of the steps before the last evaluation, nats per token."""
    best_loss: float = math.inf
    """Lowest validation loss so far, nats per token."""
    best_step: int | None = None
    """Step of the lowest validation loss."""
    best_training_loss: float | None = None
    """Training loss of the steps before the best evaluation, nats per token."""
    evaluations_without_best: int = 0
    """Evaluations since the best one, for early stopping."""
    recorded_step: int | None = None
    """Step of the last recording of attention maps."""
    recorded_share: float = 0.0
    """Fraction of the budget that was spent at the last recording."""
    recording_seconds: float = 0.0
    """Total duration of the recordings between evaluations."""
    last_recording_seconds: float = 0.0
    """Duration of the last one."""

    def count_step(self, tokens: int, seconds: float, timed: bool) -> None:
        """Count a training step. timed: whether it counts for `step_seconds`."""
        self.step += 1
        self.tokens += tokens
        self.seconds += seconds
        self.step_seconds += seconds if timed else 0.0

    def count_evaluation(self, loss: float, training_loss: float, seconds: float) -> bool:
        """Record the losses at this step and the duration of the evaluation; return whether it is the best so far."""
        best = loss < self.best_loss
        if best:
            self.best_loss, self.best_step, self.best_training_loss = loss, self.step, training_loss
        self.evaluations_without_best = 0 if best else self.evaluations_without_best + 1
        self.evaluated_step, self.evaluated_seconds, self.evaluated_loss = self.step, self.seconds, loss
        self.training_loss, self.evaluation_seconds = training_loss, seconds
        return best

    def forget_best(self) -> None:
        """Reset the best loss: losses on different data are not comparable."""
        self.best_loss, self.best_step, self.best_training_loss = math.inf, None, None
        self.evaluations_without_best = 0

    def state_dict(self) -> dict:
        """Return the counters by name. JSON has no infinity, so an infinite best loss becomes None."""
        return asdict(self) | {"best_loss": self.best_loss if math.isfinite(self.best_loss) else None}

    def load_state_dict(self, state: dict) -> None:
        """Restore the output of `state_dict`. Raises TypeError or ValueError if a counter is not a number."""
        for name in (field.name for field in fields(self) if field.name in state):
            check_counter(name, state[name], name in _OPTIONAL)
            setattr(self, name, state[name])
        self.best_loss = math.inf if self.best_loss is None else self.best_loss


_OPTIONAL = ("evaluated_loss", "training_loss", "best_loss", "best_step", "best_training_loss", "recorded_step")
"""Counters that may be None."""


def check_counter(name: str, value: object, optional: bool = False) -> None:
    """Raise TypeError or ValueError if a saved counter is not a finite, non-negative number. optional: None is
    allowed."""
    if value is None and optional:
        return
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is {type(value).__name__}, not a number")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}")


@dataclass
class Interval:
    """Totals since the last log line or the last evaluation."""

    loss: Tensor | float = 0.0
    """Sum in nats; stays on the device until it is read, so that steps do not synchronise."""
    targets: int = 0
    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0

    @classmethod
    def restored(cls, state: dict) -> Interval:
        """Return the interval of a `state_dict`. Raises TypeError or ValueError if a total is not a number."""
        totals = {field.name: state[field.name] for field in fields(cls)}
        for name, value in totals.items():
            check_counter(name, value)
        return cls(**totals)

    def add(self, loss: Tensor, targets: int, tokens: int, seconds: float) -> None:
        """Add one step. loss: sum in nats; tokens: targets and sources."""
        self.loss = self.loss + loss
        self.targets += targets
        self.tokens += tokens
        self.steps += 1
        self.seconds += seconds

    @property
    def mean_loss(self) -> float:
        """Mean loss in nats per target token."""
        return float(self.loss) / max(1, self.targets)

    def state_dict(self) -> dict:
        """Return the totals as plain numbers, the arguments of a new Interval."""
        return vars(self) | {"loss": float(self.loss)}

    @property
    def tokens_per_second(self) -> float:
        """Non-padding tokens (source and target) per second of training steps."""
        return self.tokens / self.seconds if self.seconds else 0.0
