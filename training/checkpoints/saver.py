"""Save checkpoints beside training: once per step, with the result of its evaluation, and again after a failure."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from torch import Tensor

from configs.errors import UserError
from training.checkpoints.early_weights import early_weights, save_early_weights
from training.checkpoints.folder import NotSaved, record_evaluation, save_checkpoint
from training.checkpoints.snapshot import Snapshot
from training.counters import Progress
from training.run_folder.log import RunLog

RETRY_SECONDS = 60
"""Seconds of training before a failed checkpoint write is retried."""

Contents = Callable[[], tuple[dict[str, Tensor], dict]]
"""Returns the weights for generation and the remaining training state. Raises UserError if they must not be saved."""


class CheckpointSaver:
    """Writes the checkpoints of one run in a thread, one at a time.

    After a failure it warns and lets training continue; the loop asks `retry_is_due`. Only this class's caller, never
    the thread, changes the attributes and writes to the log. If the run folder has another name, training is saved
    there once more and ends.
    """

    folder: Path
    log: RunLog

    def __init__(self, contents: Contents, progress: Progress, keep: int) -> None:
        self.contents, self.progress, self.keep = contents, progress, keep
        self.saved_step: int | None = None
        """Step of the last complete checkpoint."""
        self.pending: Write | None = None
        self.unrecorded: tuple[dict, bool] | None = None
        """Counters of an evaluation that is not saved yet, and whether it was the best; its checkpoint is `last`."""
        self.failure: str | None = None
        """Why the last attempt to save failed, or None."""
        self.retry_at = math.inf
        """`progress.seconds` at which a failed save is repeated."""

    @contextmanager
    def opened(self, run: Path, log: RunLog) -> Iterator[None]:
        """Write to this run folder. At the end of the context, also after an exception, nothing is pending."""
        self.folder, self.log = run / "checkpoints", log
        try:
            yield
        finally:
            self.wait()

    def retry_is_due(self) -> bool:
        """Whether a save failed long enough ago to be repeated, or the run folder has been renamed or deleted."""
        if self.pending is not None and not self.pending.is_alive():
            self.wait()
        return self.progress.seconds >= self.retry_at or self.log.place.is_left()

    def save(self) -> None:
        """Begin to write a checkpoint of this step unless there is one; `wait` returns when it is complete. Raises
        UserError if the run folder has been renamed, with the step saved in it, or deleted."""
        self.wait()
        if self.log.place.is_left():
            self._leave()
        self._begin()

    def _leave(self) -> NoReturn:
        """Save this step where the run folder is now, and end training."""
        run, now, step = self.log.place.run, self.log.place.now(), self.progress.step
        if now is None:
            gone = "was deleted, or moved to another disk, while it was trained"
            raise UserError(f"{run}: {gone}: training stops at step {step}, of which nothing is saved")
        self.folder = now / "checkpoints"
        self.log.follow(now)
        self._begin()
        self.wait()
        saved = f"step {step} is saved there" if self.saved_step == step else self.failure
        raise UserError(f"{run}: was moved to {now} while it was trained: {saved}; continue with resume={now}")

    def _begin(self) -> None:
        try:
            self._record_pending()  # the newer checkpoint may delete the evaluated one
        except NotSaved as error:
            self._failed(error)
            return
        step, folder, keep = self.progress.step, self.folder, self.keep
        if self.saved_step == step:
            self._succeeded()
            return
        snapshot, counters = Snapshot(*self.contents()), self.progress.state_dict()
        self.retry_at = math.inf
        self.pending = Write(step, snapshot, lambda: save_checkpoint(folder, step, snapshot, counters, keep=keep))
        self.pending.start()

    def save_weights(self, weights: dict[str, Tensor]) -> None:
        """Begin to write the weights of this step alone, unless they are there. If this fails, there is only a warning:
        at the next attempt they would be those of another step."""
        self.wait()
        step, folder = self.progress.step, self.folder
        if self.log.place.is_left():  # `save` is next
            return
        if not early_weights(folder, step).exists():
            snapshot = Snapshot(weights, {})
            self.pending = Write(step, snapshot, lambda: save_early_weights(folder, step, snapshot), checkpoint=False)
            self.pending.start()

    def before_update(self) -> None:
        """Call before the weights or the optimiser's state change: waits until a pending write allows it."""
        if self.pending is not None:
            self.pending.snapshot.before_update()

    def wait(self) -> None:
        """Wait until nothing is pending and take the result over."""
        if self.pending is None:
            return
        self.pending.join()
        written, self.pending = self.pending, None
        if isinstance(written.error, NotSaved) and not written.checkpoint:
            self.log.line(f"warning: {written.error}; training continues")
        elif isinstance(written.error, NotSaved):
            self._failed(written.error)
        elif written.error is not None:
            raise written.error
        elif written.checkpoint:
            self.saved_step = written.step
            self._succeeded()

    def record(self, best: bool) -> bool:
        """Save the result of an evaluation, which is in the counters, with the checkpoint of this step -> whether it is
        saved.

        best: whether `best` is set to this checkpoint.
        """
        self.wait()
        if self.saved_step != self.progress.step or self.log.place.is_left():
            self.save()
            self.wait()
        if self.saved_step != self.progress.step:
            return False
        self.unrecorded = self.progress.state_dict(), best
        try:
            self._record_pending()
        except NotSaved as error:
            self._failed(error)
            return False
        self._succeeded()
        return True

    def _record_pending(self) -> None:
        if self.unrecorded is not None:
            progress, best = self.unrecorded
            record_evaluation(self.folder, progress, best=best, keep=self.keep)
            self.unrecorded = None

    def _failed(self, error: NotSaved) -> None:
        if self.failure is None:
            self.log.line(f"warning: {error}; training continues, next attempt in {RETRY_SECONDS} seconds")
        self.failure, self.retry_at = str(error), self.progress.seconds + RETRY_SECONDS

    def _succeeded(self) -> None:
        if self.failure is not None:
            self.log.line(f"step {self.saved_step} is saved: the disk is writable again")
        self.failure, self.retry_at = None, math.inf


class Write(threading.Thread):
    """Writes one checkpoint, or early weights. A daemon thread: a second Ctrl-C ends the process without waiting for
    it."""

    def __init__(self, step: int, snapshot: Snapshot, write: Callable[[], object], checkpoint: bool = True) -> None:
        super().__init__(name=f"{'checkpoint' if checkpoint else 'weights'} of step {step}", daemon=True)
        self.step, self.snapshot, self.write, self.checkpoint = step, snapshot, write, checkpoint
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write, and keep an exception for the thread that waits."""
        try:
            with self.snapshot.in_use():
                self.write()
        except BaseException as error:
            self.error = error
