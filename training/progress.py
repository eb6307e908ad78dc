"""Where a run stands: the counters that a checkpoint holds, and signals that ask to stop."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a command line that is refused waits for no library
    from torch import Tensor


@dataclass
class Progress:
    """Counters of a run, all plain numbers."""

    step: int = 0
    """Optimiser steps done."""
    tokens: int = 0
    """Real tokens trained on (source and target)."""
    seconds: float = 0.0
    """Wall-clock time in the loop over all starts, evaluations included."""
    step_seconds: float = 0.0
    """Of `seconds`, those of training steps, without the first one of each start, which may compile."""
    evaluated_step: int = 0
    """Step of the last evaluation."""
    evaluated_seconds: float = 0.0
    """`seconds` when an evaluation was last made, or left out."""
    evaluated_loss: float | None = None
    """Validation loss of the last evaluation, nats per token."""
    evaluation_seconds: float = 0.0
    """Time that it took, without the checkpoint before it."""
    training_loss: float | None = None
    """Training loss of the steps before it, nats per token."""
    best_loss: float = math.inf
    """Lowest validation loss so far, nats per token."""
    best_step: int | None = None
    """Step that it was measured at."""
    best_training_loss: float | None = None
    """Training loss of the steps before that."""
    evaluations_without_best: int = 0
    """Evaluations since then: what early stopping counts."""

    def count_evaluation(self, loss: float, training_loss: float, seconds: float) -> bool:
        """Note the losses of this step and what it took to measure them -> whether it is the best so far."""
        best = loss < self.best_loss
        if best:
            self.best_loss, self.best_step, self.best_training_loss = loss, self.step, training_loss
        self.evaluations_without_best = 0 if best else self.evaluations_without_best + 1
        self.evaluated_step, self.evaluated_seconds, self.evaluated_loss = self.step, self.seconds, loss
        self.training_loss, self.evaluation_seconds = training_loss, seconds
        return best

    def forget_best(self) -> None:
        """Losses on other data do not compare with those so far."""
        self.best_loss, self.best_step, self.best_training_loss = math.inf, None, None
        self.evaluations_without_best = 0

    def state_dict(self) -> dict:
        """Plain values by name; JSON has no infinity, so that no best loss is None."""
        return asdict(self) | {"best_loss": self.best_loss if math.isfinite(self.best_loss) else None}

    def load_state_dict(self, state: dict) -> None:
        """Restore what `state_dict` returned; what an older version did not save keeps its default."""
        for name in (field.name for field in fields(self) if field.name in state):
            setattr(self, name, state[name])
        self.best_loss = math.inf if self.best_loss is None else self.best_loss
        if "step_seconds" not in state:  # an older version's warm-up went by this
            self.step_seconds = self.seconds - state.get("first_step_seconds", 0.0)
        if "best_step" not in state and math.isfinite(self.best_loss) and not self.evaluations_without_best:
            self.best_step = self.evaluated_step


@dataclass
class Interval:
    """What happened since the last log line or the last evaluation."""

    loss: Tensor | float = 0.0
    """Sum in nats; stays on the device until it is read, so that no step waits for it."""
    targets: int = 0
    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0

    def add(self, loss: Tensor, targets: int, tokens: int, seconds: float) -> None:
        """Count one step."""
        self.loss = self.loss + loss
        self.targets += targets
        self.tokens += tokens
        self.steps += 1
        self.seconds += seconds

    @property
    def mean_loss(self) -> float:
        """Nats per target token."""
        return float(self.loss) / max(1, self.targets)

    @property
    def tokens_per_second(self) -> float:
        """Real tokens, source and target, over the time of the training steps alone."""
        return self.tokens / self.seconds if self.seconds else 0.0


class Interrupted(BaseException):
    """Training ended because a signal asked for it; everything is saved.

    Like KeyboardInterrupt it passes `except Exception`, which is meant for failures.
    """

    def __init__(self, received: signal.Signals) -> None:
        super().__init__(received.name)
        self.exit_code = 128 + received


class StopRequest:
    """Turns SIGINT, SIGTERM and SIGHUP into a wish that the loop fulfils after the step; a second signal has its usual
    effect."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.raising = False

    def __enter__(self) -> StopRequest:
        # A hang-up that is ignored (nohup) stays ignored.
        wanted = [n for n in self.SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self.previous = {number: signal.signal(number, self.handle) for number in wanted}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within, for work that only reads, an evaluation: a signal does not wait, it raises `Interrupted`; one that
        came before too."""
        self.raising = True
        try:
            if self.received:
                raise Interrupted(self.received)
            yield
        finally:
            self.raising = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """Remember the signal; from now on a further one has its usual effect."""
        self.received = signal.Signals(number)
        for each, handler in self.previous.items():
            signal.signal(each, handler)
        # Not print: the signal may have come in the middle of one. After a hang-up there is no terminal to write to.
        with suppress(OSError):
            os.write(2, b"\nstopping and saving; press Ctrl-C again to quit without saving\n")
        if self.raising:
            raise Interrupted(self.received)
