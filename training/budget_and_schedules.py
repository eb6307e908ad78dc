"""Decide what a step needs: its learning rate, an evaluation, a recording of attention maps, the end of training.

All of it is computed from the config and the counters of the run alone, so that a resumed run decides as if it had
never stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attention_maps.config import AttentionConfig
from training.config import ScheduleConfig, TrainerConfig
from training.counters import Progress

WARMUP_SHARE = 0.1
"""Maximum warm-up as a fraction of the budget; for a budget in steps, only if the warm-up is not set by the user."""

LONG = 5.0
"""Seconds above which an evaluation counts as long. Only long evaluations are skipped or noted in the log."""

EVENLY = 60
"""Recordings spread evenly over the budget, in addition to the early ones."""
SHARE, EARLY, ALLOWANCE = 0.01, 0.5, 0.5
"""Recordings between evaluations may take this fraction of the time of the run. The early ones may use half of that,
and in any case half a second; what is left is spread evenly over the rest of the run."""


@dataclass(frozen=True)
class Budget:
    """Limits on steps, time, patience and evaluation frequency, together with the counters of the run."""

    trainer: TrainerConfig
    progress: Progress

    def share_done(self) -> float:
        """Fraction of the budget spent: the larger of the fractions of steps and time."""
        return max(self.share_of_steps(), self.share_of_time(self.progress.seconds))

    def share_of_steps(self) -> float:
        """Fraction of `trainer.steps` completed; 0 without a step budget."""
        return self.progress.step / self.trainer.steps if self.trainer.steps else 0.0

    def share_of_time(self, seconds: float) -> float:
        """`seconds` as a fraction of `trainer.minutes`; 0 without a time budget."""
        return seconds / (60 * self.trainer.minutes) if self.trainer.minutes else 0.0

    def share_warmed_up(self) -> float:
        """Fraction of `trainer.minutes` that counts towards warm-up: training time, but at least a fifth of all time; a
        run that mostly evaluates would otherwise end during warm-up."""
        return max(self.share_of_time(self.progress.step_seconds), self.share_of_time(self.progress.seconds) / 5)

    def end_of_training(self) -> str | None:
        """Return the reason why training is over (budget or patience), or None if it is not."""
        trainer, progress = self.trainer, self.progress
        if self.share_of_steps() >= 1:
            return f"all steps are done (trainer.steps={trainer.steps})"
        if self.share_of_time(progress.seconds) >= 1:
            return f"the time is up (trainer.minutes={trainer.minutes:g})"
        if trainer.patience is not None and progress.evaluations_without_best >= trainer.patience:
            return f"no better validation loss in {trainer.patience} evaluations (trainer.patience)"
        return None

    def evaluation_is_due(self) -> bool:
        """Whether to evaluate: at every interval and at the end, but only once per step."""
        trainer, progress = self.trainer, self.progress
        if progress.step == progress.evaluated_step:
            return False
        if self.share_done() >= 1:
            return True
        if trainer.evaluate_minutes is not None:
            last, first = progress.evaluated_seconds / 60, trainer.first_evaluation_minutes
            interval = evaluation_interval(last, trainer.evaluate_minutes, first)
            return progress.seconds - progress.evaluated_seconds >= 60 * interval
        return progress.step % trainer.evaluate_every == 0

    def too_soon(self, training: float) -> str | None:
        """Return the reason to skip a due evaluation, or None to run it. The last evaluation of a run is never skipped.

        training: seconds of training steps since the previous evaluation.
        """
        took = self.progress.evaluation_seconds
        if not self.trainer.limit_evaluations or took < LONG or training >= 2 * took or self.end_of_training():
            return None
        return (
            f"evaluation at step {self.progress.step} skipped: the last one took {took:.0f} s, training since then"
            f" only {training:.0f} s; evaluations may use at most a third of the time"
        )


def evaluation_interval(last: float, longest: float, first: float | None) -> float:
    """Return the minutes between the evaluation at minute `last` of a run (0: none yet) and the next evaluation.

    The first interval is `first`; each later interval doubles the elapsed time, up to `longest`. Without `first` all
    are `longest`. The result depends on `last` alone, so that a resumed run keeps its schedule.
    """
    return longest if first is None else min(max(first, last), longest)


def learning_rate_factor(config: ScheduleConfig, budget: Budget) -> float:
    """Return the fraction of the peak learning rate for the next update."""
    return scheduled(config, budget.progress.step, budget.share_done(), budget.share_warmed_up())


def scheduled(config: ScheduleConfig, step: int, progress: float, warmed_up_time: float = 0.0) -> float:
    """Return the fraction of the peak learning rate for the update from `step` to `step + 1`.

    Schedules use two clocks. `progress` in [0, 1] is the fraction of the budget spent (steps, or elapsed time including
    evaluations and all starts); decays with an end follow it, so that they end with the budget. `warmed_up_time` is the
    fraction of a time budget that counts towards warm-up (`Budget.share_warmed_up`), 0 without one: warm-up counts
    steps, but ends earlier by time if steps are slow. `inverse_sqrt`, which has no end, continues on the warm-up clock.
    """
    warmed_up = max((step + 1) / (config.warmup + 1), warmed_up_time / WARMUP_SHARE)  # 1 at the peak
    if warmed_up < 1:
        return warmed_up
    progress = min(max(progress, 0.0), 1.0)
    if config.kind == "constant":
        return 1.0
    if config.kind == "inverse_sqrt":  # Vaswani et al. 2017, section 5.3, peak at the end of warm-up
        return 1 / math.sqrt(warmed_up)
    if config.kind == "cosine":  # Loshchilov & Hutter 2017
        return config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * progress))
    if config.kind == "linear":
        return config.final + (1 - config.final) * (1 - progress)
    if config.kind == "wsd":  # Hu et al. 2024: warm-up, stable, decay
        return 1.0 if config.decay == 0 else config.final + (1 - config.final) * min(1.0, (1 - progress) / config.decay)
    raise ValueError(f"schedule.kind={config.kind}")


@dataclass(frozen=True)
class RecordingSchedule:
    """Recordings at steps 0, 1, 2, 4, 8, …, until their distance is that of the later, evenly spaced ones.

    Heads form early, often within a few dozen steps, when the first evaluation is still far away.
    """

    config: AttentionConfig
    budget: Budget

    def is_due(self) -> bool:
        """Whether to record maps before the next step. Evaluations record by themselves."""
        progress, every = self.budget.progress, self.config.every
        evaluated = progress.step and progress.step == progress.evaluated_step  # both start at 0, without an evaluation
        if not self.config.enabled or every == 0 or evaluated or progress.step == progress.recorded_step:
            return False
        return self._is_early() or self._is_regular()

    def _is_early(self) -> bool:
        progress, every = self.budget.progress, self.config.every
        power_of_two = progress.step & (progress.step - 1) == 0  # or 0
        soon = self.budget.share_done() < 1 / EVENLY if every is None else progress.step < every
        return power_of_two and soon and self._left(EARLY) >= 0

    def _is_regular(self) -> bool:
        progress, every = self.budget.progress, self.config.every
        if every is not None:
            return progress.step % every == 0 and self._left(max(self.budget.share_done(), EARLY)) >= 0
        done, before = self.budget.share_done(), progress.recorded_share
        if int(EVENLY * done) == int(EVENLY * before):
            return False
        cost = progress.last_recording_seconds * (1 - done)
        left = self._left()
        return left > 0 and done - before >= cost / left

    def _left(self, share: float = 1.0) -> float:
        """Return the seconds that recordings may still take of this share of their time; infinite without a limit."""
        progress, done = self.budget.progress, self.budget.share_done()
        if not self.budget.trainer.limit_evaluations:
            return math.inf
        expected = progress.seconds / done if done else 0.0  # of the whole run
        return max(ALLOWANCE, share * SHARE * expected) - progress.recording_seconds

    def count(self, seconds: float) -> None:
        """Note a recording at this step, which took `seconds`; 0 for one that is part of an evaluation."""
        progress = self.budget.progress
        progress.recorded_step, progress.recorded_share = progress.step, self.budget.share_done()
        if seconds:
            progress.recording_seconds += seconds
            progress.last_recording_seconds = seconds
