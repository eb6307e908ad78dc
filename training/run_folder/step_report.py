"""Training progress for the log: one line per report, with the same values as curves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from configs.errors import check_finite
from generation.cuda.host_copy import HostCopy
from training.budget import LONG
from training.config import TrainConfig
from training.progress import Progress
from training.run_folder.log import RunLog, duration, short

RISEN = 1.01
"""Ratio of last to best validation loss above which the end of a run logs a note; smaller increases are noise."""


LARGE_SHARE = 0.25
"""Minimum fraction of the time since the previous evaluation that a long evaluation takes for a note to be logged."""


@dataclass
class StepReport:
    """Values of a report. Loss and norm may still be in transfer from the device; all others are final."""

    step: int
    steps: int | None
    """Step budget, if set."""
    minutes: float | None
    """Time budget, if set and further spent than the step budget."""
    share_done: float
    """Fraction of the budget spent."""
    learning_rate: float
    milliseconds: float
    """Mean per step over the interval."""
    tokens_per_second: float
    utilisation: float | None
    """Fraction of the peak FLOP/s, if the peak is known."""
    epoch: float
    remaining: float
    """Estimated seconds left; NaN if unknown."""
    targets: int
    """Number of tokens in the loss sum."""
    loss_and_norm: HostCopy

    def write(self, log: RunLog) -> None:
        """Write the report to the log and TensorBoard. Raises UserError if the loss is not finite."""
        total, norm = self.loss_and_norm.values()
        loss = total / max(1, self.targets)
        check_finite("training loss", loss, self.step)
        of_steps = f"/{self.steps}" if self.steps else ""
        of_minutes = f" of {self.minutes:g} min" if self.minutes else ""
        log.line(
            f"step {self.step}{of_steps} {100 * self.share_done:5.1f} %{of_minutes} | loss {loss:.4f} | lr"
            f" {self.learning_rate:.2e} | norm {norm:.2f} | {self.milliseconds:.0f} ms |"
            f" {short(self.tokens_per_second)} tok/s"
            + (f" | mfu {100 * self.utilisation:.1f} %" if self.utilisation else "")
            + f" | epoch {self.epoch:.2f} | eta {duration(self.remaining) if math.isfinite(self.remaining) else '?'}"
        )
        log.scalars(
            {
                "train/loss": loss,
                "train/learning_rate": self.learning_rate,
                "train/gradient_norm": norm,
                "speed/tokens_per_second": self.tokens_per_second,
                "speed/milliseconds_per_step": self.milliseconds,
                "speed/mfu": self.utilisation,
            },
            self.step,
        )


def long_evaluation(config: TrainConfig, seconds: float, training: float) -> str | None:
    """Return a note if an evaluation took a large fraction of the time. training: seconds of the steps before it."""
    share = seconds / (seconds + training)
    if seconds < LONG or share < LARGE_SHARE:
        return None
    interval = "trainer.evaluate_every" if config.trainer.evaluate_minutes is None else "trainer.evaluate_minutes"
    sizes = "data.valid_tokens" + (" and trainer.evaluate_sentences" if config.task == "translate" else "")
    return (
        f"note: this evaluation took {seconds:.0f} s, {100 * share:.0f} % of the time since the previous one; raise"
        f" {interval} for fewer evaluations, or lower {sizes} for shorter ones"
    )


def final_lines(progress: Progress) -> list[str]:
    """Return the best validation loss with its step, and a warning if the last one is clearly worse."""
    best, last = progress.best_loss, progress.evaluated_loss
    if not math.isfinite(best):
        return ["best validation loss: none, not evaluated since the reset"]
    at = "" if progress.best_step is None else f" at step {progress.best_step}"
    lines = [f"best validation loss {best:.4f} nats per token{at}"]
    if last is not None and last > RISEN * best:
        then, now = progress.best_training_loss, progress.training_loss
        overfits = then is not None and now is not None and now < then
        lines.append(
            f"note: the last loss, {last:.4f} at step {progress.evaluated_step}, is {100 * (last / best - 1):.1f} %"
            " higher"
            + (f", while the training loss fell from {then:.4f} to {now:.4f}: the model overfits" if overfits else "")
            + ". The best checkpoint is kept and used; "
            + ("use more data or dropout (model.dropout), or " if overfits else "")
            + "set trainer.patience=3 to stop earlier"
        )
    return lines
