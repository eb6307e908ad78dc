"""How much of its budget a run has spent, and what is due."""

from __future__ import annotations

from dataclasses import dataclass

from training.config import TrainerConfig
from training.progress import Progress

LONG = 5.0
"""Seconds from which on an evaluation is long: only then is one left out, or a note written."""

STEPS_PER_EVALUATION = 2.0
"""Least time of training steps after a long evaluation, in multiples of its own: evaluations take a third of the time
at most."""


@dataclass(frozen=True)
class Budget:
    """Steps, minutes, patience and evaluations as they are set, beside the counters of the run."""

    trainer: TrainerConfig
    progress: Progress

    def share_done(self) -> float:
        """The part of the budget that is spent, whichever of steps and minutes is further on."""
        return max(self.share_of_steps(), self.share_of_time(self.progress.seconds))

    def share_of_steps(self) -> float:
        """The part of `trainer.steps` that is done, 0 where there is no such budget."""
        return self.progress.step / self.trainer.steps if self.trainer.steps else 0.0

    def share_of_time(self, seconds: float) -> float:
        """The part of `trainer.minutes` that `seconds` are, 0 where there is no such budget."""
        return seconds / (60 * self.trainer.minutes) if self.trainer.minutes else 0.0

    def share_warmed_up(self) -> float:
        """The part of `trainer.minutes` by which warm-up goes: that of training steps, and a fifth of all time at
        least.

        Else a run that spends nearly all its time on many short evaluations would end before its warm-up does.
        """
        return max(self.share_of_time(self.progress.step_seconds), self.share_of_time(self.progress.seconds) / 5)

    def end_of_training(self) -> str | None:
        """Why training is over (budget or patience), in words, or None while it is not."""
        trainer, progress = self.trainer, self.progress
        if self.share_of_steps() >= 1:
            return f"all steps are done (trainer.steps={trainer.steps})"
        if self.share_of_time(progress.seconds) >= 1:
            return f"the time is up (trainer.minutes={trainer.minutes:g})"
        if trainer.patience is not None and progress.evaluations_without_best >= trainer.patience:
            return f"no better validation loss in {trainer.patience} evaluations (trainer.patience)"
        return None

    def evaluation_is_due(self) -> bool:
        """At the interval and at the end, and not twice at one step."""
        trainer, progress = self.trainer, self.progress
        if progress.step == progress.evaluated_step:
            return False
        if self.share_done() >= 1:
            return True
        if trainer.evaluate_minutes is not None:
            interval = evaluation_interval(
                progress.evaluated_seconds / 60, trainer.evaluate_minutes, trainer.first_evaluation_minutes
            )
            return progress.seconds - progress.evaluated_seconds >= 60 * interval
        return progress.step % trainer.evaluate_every == 0

    def too_soon(self, training: float) -> str | None:
        """Why a due evaluation is left out, in words, or None where it is made: the last one of a run always is.

        training: seconds of training steps since the evaluation before.
        """
        took = self.progress.evaluation_seconds
        if took < LONG or training >= STEPS_PER_EVALUATION * took or self.end_of_training():
            return None
        return (
            f"evaluation at step {self.progress.step} skipped: the last one took {took:.0f} s, training since then"
            f" {training:.0f} s; evaluations take a third of the time at most"
        )


def evaluation_interval(last: float, longest: float, first: float | None) -> float:
    """Minutes from the evaluation at minute `last` of a run (0: none yet) to the next one.

    Intervals begin with `first` and double the time trained until they reach `longest`; without `first` they are all
    `longest`. A function of `last` alone, so that a resumed run keeps its schedule.
    """
    return longest if first is None else min(max(first, last), longest)
