"""Save checkpoints during training: once per step, with the result of its evaluation, and again after a failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from training.checkpoints.folder import NotSaved, record_evaluation, save_checkpoint
from training.progress import Progress
from training.run_folder.log import RunLog

RETRY_SECONDS = 60
"""Seconds of training before a failed checkpoint write is retried."""

Contents = Callable[[], tuple[dict[str, Tensor], dict]]
"""Returns the weights for generation and the remaining training state. Raises UserError if they must not be saved."""


class CheckpointSaver:
    """Writes the checkpoints of one run; `save` and `record` return whether they succeeded."""

    folder: Path
    log: RunLog

    def __init__(self, contents: Contents, progress: Progress, keep: int) -> None:
        self.contents, self.progress, self.keep = contents, progress, keep
        self.saved_step: int | None = None
        """Step of the last complete checkpoint."""
        self.unrecorded: tuple[dict, bool] | None = None
        """Counters of an evaluation that is not saved yet, and whether it was the best; its checkpoint is `last`."""
        self.failure: str | None = None
        """Why the last attempt to save failed, or None."""
        self.retry_at = math.inf
        """`progress.seconds` at which a failed save is repeated."""

    def open(self, run: Path, log: RunLog) -> None:
        """Write to this run folder from now on."""
        self.folder, self.log = run / "checkpoints", log

    @property
    def retry_is_due(self) -> bool:
        """Whether a save failed long enough ago to be repeated."""
        return self.progress.seconds >= self.retry_at

    def save(self) -> bool:
        """Save this step unless it is saved. After a failure: warn, and let training continue."""
        return self._attempt(self._save)

    def record(self, best: bool) -> bool:
        """Save the result of an evaluation, which is in the counters, with the checkpoint of this step.

        best: whether `best` is set to this checkpoint.
        """

        def write() -> None:
            self._save()
            self.unrecorded = self.progress.state_dict(), best
            self._record_pending()

        return self._attempt(write)

    def _attempt(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except NotSaved as error:
            if self.failure is None:
                self.log.line(f"warning: {error}; training continues, next attempt in {RETRY_SECONDS} seconds")
            self.failure, self.retry_at = str(error), self.progress.seconds + RETRY_SECONDS
            return False
        if self.failure is not None:
            self.log.line(f"step {self.progress.step} is saved: the disk is writable again")
        self.failure, self.retry_at = None, math.inf
        return True

    def _save(self) -> None:
        self._record_pending()
        step = self.progress.step
        if self.saved_step == step:
            return
        weights, state = self.contents()
        save_checkpoint(self.folder, step, weights, state, self.progress.state_dict(), keep=self.keep)
        self.saved_step = step

    def _record_pending(self) -> None:
        """Save a pending evaluation result before a newer checkpoint, whose write may delete the evaluated one."""
        if self.unrecorded is not None:
            progress, best = self.unrecorded
            record_evaluation(self.folder, progress, best=best, keep=self.keep)
            self.unrecorded = None
