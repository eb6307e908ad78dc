"""Training counters saved in checkpoints, and handling of stop signals."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # invalid command lines are rejected without importing torch
    from torch import Tensor

    from training.hardware.finite import Applied


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
    skipped_steps: int = 0
    """Steps that were not applied, because the gradient was not finite; `step` includes them."""
    skipped_in_a_row: int = 0
    """Skipped steps since the last applied step."""

    def count_evaluation(self, loss: float, training_loss: float | None, seconds: float) -> bool:
        """Record the losses at this step and the duration of the evaluation; return whether it is the best so far.
        training_loss: None if all steps since the last evaluation were skipped."""
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
        """Restore the output of `state_dict`; counters that an older version did not save keep their defaults. Raises
        TypeError or ValueError if one is not a number."""
        for name in (field.name for field in fields(self) if field.name in state):
            check_counter(name, state[name], name in _OPTIONAL)
            setattr(self, name, state[name])
        self.best_loss = math.inf if self.best_loss is None else self.best_loss
        if "step_seconds" not in state:  # the warm-up of older versions used this value
            self.step_seconds = self.seconds - state.get("first_step_seconds", 0.0)
        if "best_step" not in state and math.isfinite(self.best_loss) and not self.evaluations_without_best:
            self.best_step = self.evaluated_step


_OPTIONAL = ("evaluated_loss", "training_loss", "best_loss", "best_step", "best_training_loss", "recorded_step")
"""Counters that may be None."""


def check_counter(name: str, value: object, optional: bool = False) -> None:
    """Raise TypeError or ValueError if a saved counter is not a finite, non-negative number. optional: None and, in
    older runs, infinity are allowed."""
    if value is None and optional:
        return
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is {type(value).__name__}, not a number")
    if not (0 <= value < math.inf or (optional and value == math.inf)):
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
    skipped_targets: Tensor | float = 0.0
    """Part of `targets` in skipped steps, whose loss is not in `loss`."""

    @classmethod
    def restored(cls, state: dict) -> Interval:
        """Return the interval of a `state_dict`. Raises TypeError or ValueError if a total is not a number."""
        for name, value in state.items():
            check_counter(name, value)
        return cls(**state)

    def add(self, loss: Tensor, targets: int, tokens: int, seconds: float, applied: Applied = True) -> None:
        """Add one step. applied: whether its loss counts; a tensor is not read."""
        if applied is True:
            self.loss = self.loss + loss
        elif applied is False:
            self.loss = self.loss + loss.new_zeros(())
            self.skipped_targets += targets
        else:
            self.loss = self.loss + loss.where(applied, 0.0)
            self.skipped_targets = self.skipped_targets + (~applied) * float(targets)
        self.targets += targets
        self.tokens += tokens
        self.steps += 1
        self.seconds += seconds

    @property
    def mean_loss(self) -> float | None:
        """Mean loss in nats per target token; None if all steps were skipped."""
        return mean_loss(float(self.loss), self.targets, float(self.skipped_targets))

    def state_dict(self) -> dict:
        """Return the totals as plain numbers, the arguments of a new Interval."""
        return vars(self) | {"loss": float(self.loss), "skipped_targets": float(self.skipped_targets)}

    @property
    def tokens_per_second(self) -> float:
        """Non-padding tokens (source and target) per second of training steps."""
        return self.tokens / self.seconds if self.seconds else 0.0


def mean_loss(loss: float, targets: int, skipped_targets: float) -> float | None:
    """Return the mean loss per target token of the steps that were not skipped; None if there are none."""
    return loss / max(1, targets - round(skipped_targets)) if skipped_targets < targets or not targets else None


class Interrupted(BaseException):
    """Raised when a signal has stopped training and everything is saved; like KeyboardInterrupt, not an Exception."""

    def __init__(self, received: signal.Signals, *, by_all: bool = False) -> None:
        """by_all: whether all processes of the run have agreed to stop. If not, the signal may come from torchrun,
        which stops the remaining processes before it restarts all."""
        super().__init__(received.name)
        self.exit_code, self.by_all = 128 + received, by_all


class StopRequest:
    """Defers SIGINT, SIGTERM and SIGHUP to the end of the training step; a second signal has its default effect.

    A worker of torchrun may receive the same request twice, from the scheduler and from torchrun: it ignores further
    signals for some seconds (`pause`).
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, quiet: bool = False, pause: float = 0.0) -> None:
        """quiet: print nothing. pause: seconds after the first signal."""
        self.quiet, self.pause = quiet, pause
        self.ignored_until = math.inf
        self.received: signal.Signals | None = None
        self.raising = False

    def __enter__(self) -> StopRequest:
        # An ignored SIGHUP (nohup) stays ignored.
        wanted = [n for n in self.SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self.previous = {number: signal.signal(number, self.handle) for number in wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside the context, raise `Interrupted` immediately on a new or pending signal; for work that only reads."""
        self.raising = True
        try:
            if self.received:
                raise Interrupted(self.received)
            yield
        finally:
            self.raising = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """Record the signal; further signals have their default effect, after the pause."""
        if self.received is not None and time.monotonic() < self.ignored_until:
            return
        if self.received is not None or not self.pause:
            for each, handler in self.previous.items():
                signal.signal(each, handler)
        if self.received is not None:
            signal.raise_signal(number)
            return
        self.received, self.ignored_until = signal.Signals(number), time.monotonic() + self.pause
        # Not print, which is not reentrant. After a hang-up there is no terminal to write to.
        with suppress(OSError):
            os.write(2, b"" if self.quiet else b"\nstopping and saving; press Ctrl-C again to quit without saving\n")
        if self.raising:
            raise Interrupted(self.received)
