"""When attention maps are recorded: early and often, without waiting for evaluations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attention_maps.config import AttentionConfig
from training.budget import Budget

EVENLY = 60
"""Recordings spread evenly over the budget, in addition to the early ones."""
SHARE, EARLY, ALLOWANCE = 0.01, 0.5, 0.5
"""Recordings between evaluations may take this fraction of the time of the run. The early ones may use half of that,
and in any case half a second; what is left is spread evenly over the rest of the run."""


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
