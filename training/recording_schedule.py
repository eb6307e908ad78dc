"""When attention maps are recorded: early and often, without waiting for evaluations."""

from __future__ import annotations

from dataclasses import dataclass

from attention_maps.config import AttentionConfig
from training.budget import Budget

EVENLY = 60
"""Recordings spread evenly over the budget, in addition to the early ones."""
SHARE, EARLY, ALLOWANCE = 0.01, 0.25, 0.5
"""Recordings between evaluations may take this fraction of the time of the run. The first may use a quarter of that in
advance, because early steps tell most, and in any case half a second."""


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
        if not (self._is_early() or self._is_regular()):
            return False
        return not self.budget.trainer.limit_evaluations or progress.recording_seconds <= self._allowed()

    def _allowed(self) -> float:
        """Return the seconds that recordings may have taken by now."""
        done, seconds = self.budget.share_done(), self.budget.progress.seconds
        expected = seconds / done if done else 0.0  # of the whole run
        return max(ALLOWANCE, SHARE * expected * max(done, EARLY))

    def _is_early(self) -> bool:
        step, every = self.budget.progress.step, self.config.every
        power_of_two = step & (step - 1) == 0  # or 0
        return power_of_two and (self.budget.share_done() < 1 / EVENLY if every is None else step < every)

    def _is_regular(self) -> bool:
        progress, every = self.budget.progress, self.config.every
        if every is not None:
            return progress.step % every == 0
        return int(EVENLY * self.budget.share_done()) != int(EVENLY * progress.recorded_share)

    def count(self, seconds: float) -> None:
        """Note a recording at this step, which took `seconds`; 0 for one that is part of an evaluation."""
        progress = self.budget.progress
        progress.recorded_step, progress.recorded_share = progress.step, self.budget.share_done()
        progress.recording_seconds += seconds
