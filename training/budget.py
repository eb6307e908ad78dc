"""Progress through the training budget, and whether an evaluation is due."""

from __future__ import annotations

from dataclasses import dataclass

from training.config import TrainerConfig
from training.progress import Progress

LONG = 5.0
"""Seconds above which an evaluation counts as long. Only long evaluations are skipped or noted in the log."""


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
