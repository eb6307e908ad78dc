"""What the log says of training: one informative line, and the same numbers as curves."""

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
"""Last over best validation loss from which on the end of a run warns: less is noise."""


LARGE_SHARE = 0.25
"""Of the time since the evaluation before, what a long evaluation takes when a note is written."""


@dataclass
class StepReport:
    """What is known at a step. Loss and norm may still be on their way from the device; all else is of that moment."""

    step: int
    steps: int | None
    """The budget, where it is one of steps."""
    minutes: float | None
    """The budget, where it is one of minutes, and more of it is spent than of the steps."""
    share_done: float
    """Of the budget."""
    learning_rate: float
    milliseconds: float
    """Per step, mean of the interval."""
    tokens_per_second: float
    utilisation: float | None
    """Of the peak FLOP/s, where that is known."""
    epoch: float
    remaining: float
    """Seconds, NaN where nobody knows."""
    targets: int
    """Tokens that the loss is a sum over."""
    loss_and_norm: HostCopy

    def write(self, log: RunLog) -> None:
        """Into the log and TensorBoard. Raises UserError when the loss is not finite."""
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
    """A note where an evaluation took a large part of the time, `training` being the seconds of the steps before it."""
    share = seconds / (seconds + training)
    if seconds < LONG or share < LARGE_SHARE:
        return None
    interval = "trainer.evaluate_every" if config.trainer.evaluate_minutes is None else "trainer.evaluate_minutes"
    sizes = "data.valid_tokens" + (" and trainer.evaluate_sentences" if config.task == "translate" else "")
    return (
        f"note: this evaluation took {seconds:.0f} s, {100 * share:.0f} % of the time since the one before; a higher"
        f" {interval} makes evaluations rarer, a lower {sizes} shorter"
    )


def final_lines(progress: Progress) -> list[str]:
    """The best validation loss with its step, and a warning where the last one is clearly worse."""
    best, last = progress.best_loss, progress.evaluated_loss
    if not math.isfinite(best):
        return ["best validation loss: none, no evaluation since it was reset"]
    at = "" if progress.best_step is None else f" at step {progress.best_step}"
    lines = [f"best validation loss {best:.4f} nats per token{at}"]
    if last is not None and last > RISEN * best:
        then, now = progress.best_training_loss, progress.training_loss
        overfits = then is not None and now is not None and now < then
        lines.append(
            f"note: the last one, {last:.4f} at step {progress.evaluated_step}, is {100 * (last / best - 1):.1f} %"
            " higher"
            + (f", while the training loss fell from {then:.4f} to {now:.4f}: the model overfits" if overfits else "")
            + ". The best checkpoint is kept and used; "
            + ("more data or dropout (model.dropout) helps, " if overfits else "")
            + "trainer.patience=3 stops earlier"
        )
    return lines
