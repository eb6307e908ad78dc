"""Count the steps that were skipped because of a non-finite gradient, and stop a run that skips too many in a row."""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from configs.errors import DIVERGED, UserError
from configs.whole_file import write_whole
from data.batches.batch import Batch
from generation.cuda.host_copy import HostCopy
from training.checkpoints.loading import resume_hint
from training.config import TrainerConfig
from training.hardware.device_queue import UNFINISHED, DeviceQueue
from training.processes.processes import SINGLE, Processes
from training.progress import Progress
from training.run_folder.log import RunLog

BAD_BATCH = "bad_batch.json"

LINES = 10
"""Skipped steps that get a log line of their own; later ones are only counted in the lines of the steps."""


@dataclass
class Step:
    """A step whose result may still be in transfer from the device."""

    number: int
    loss_and_norm: HostCopy
    targets: int
    batches: list[Batch]
    cause: str | None
    """What `training.nan_search` has found in this process."""

    def figures(self) -> dict[str, int | str]:
        """Return number, mean loss and gradient norm; the latter two as text, for JSON has no NaN."""
        loss, norm = self.loss_and_norm.values()
        return {"step": self.number, "loss": f"{loss / max(1, self.targets):.4f}", "gradient_norm": str(norm)}

    def micro_batches(self) -> list[dict[str, list | None]]:
        """Return where the rows of this process's micro-batches come from, and their token ids, as in `Batch`."""
        return [
            {name: None if ids is None else ids.tolist() for name, ids in vars(batch).items() if name != "source_mask"}
            for batch in self.batches
        ]


class SkippedSteps:
    """Counts skipped steps in the progress. On a GPU a step is counted when the queue has finished it, up to two steps
    later, so that nothing waits for the device; on other devices every ten steps."""

    def __init__(
        self, trainer: TrainerConfig, progress: Progress, queue: DeviceQueue, processes: Processes = SINGLE
    ) -> None:
        self.find_nan = trainer.find_nan
        self.limit = 1 if trainer.find_nan else trainer.skip_limit
        """Skipped steps in a row that stop the run."""
        self.progress, self.queue, self.processes = progress, queue, processes
        self.waiting: deque[Step] = deque()
        self.found: deque[Step] = deque(maxlen=self.limit)
        """Skipped steps to report."""
        self.first: Step | None = None
        """The first of the skipped steps in a row."""

    def add(self, loss: Tensor, norm: Tensor, targets: int, batches: list[Batch], cause: str | None = None) -> None:
        """Add the step that `progress` has just counted: its summed loss, gradient norm, target tokens and batches."""
        copy = HostCopy(torch.stack([loss, norm]))
        self.waiting.append(Step(self.progress.step, copy, targets, batches, cause))
        if self.queue.immediate or len(self.waiting) == 10:
            self.settle()
        elif self.queue.asynchronous and len(self.waiting) > UNFINISHED:
            self.count(self.waiting.popleft())

    def settle(self) -> None:
        """Count the steps that the device has not finished yet; waits for it."""
        while self.waiting:
            self.count(self.waiting.popleft())

    def count(self, step: Step) -> None:
        """Count one finished step."""
        _, norm = step.loss_and_norm.values()
        if math.isfinite(norm):
            self.progress.skipped_in_a_row, self.first = 0, None
            return
        self.progress.skipped_steps += 1
        self.progress.skipped_in_a_row += 1
        self.first = self.first or step
        self.found.append(step)

    def report(self, log: RunLog, run: Path) -> None:
        """Log newly skipped steps; raises UserError after too many in a row, with the first batch in a file."""
        while self.found:
            step = self.found.popleft().figures()
            if self.progress.skipped_steps - len(self.found) <= LINES:
                log.line(
                    f"warning: step {step['step']} is skipped: loss {step['loss']}, gradient norm"
                    f" {step['gradient_norm']}; weights and optimiser state keep their values"
                )
        if self.progress.skipped_in_a_row < self.limit or self.first is None:
            return
        first = self.first
        parts = self.processes.gather(lambda: (first.micro_batches(), first.cause))
        if self.processes.is_main:
            content = first.figures() | {"batches": [batch for batches, _ in parts for batch in batches]}
            write_whole(run / BAD_BATCH, f"{json.dumps(content, allow_nan=False)}\n".encode())
        causes = [f"{cause}, in process {rank}" if cause and rank else cause for rank, (_, cause) in enumerate(parts)]
        if self.find_nan:
            nothing = "all values of the uncompiled model are finite on its batch: its compiled form fails"
            what = f"step {first.number}, " + ("; ".join(cause for cause in causes if cause) or nothing)
        else:
            what = (
                f"{self.progress.skipped_in_a_row} steps in a row, up to step {self.progress.step}, had a gradient that"
                f" is not finite (trainer.skip_limit={self.limit}); +debug=nan names the module"
            )
        raise UserError(
            f"{what}; the batch of step {first.number} is in {run / BAD_BATCH}; {DIVERGED}; {resume_hint(run)}"
        )
