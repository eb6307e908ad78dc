"""Report training progress: log lines with the same values as curves, and notes at the end of a run."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from configs.errors import check_finite
from generation.cuda.host_copy import HostCopy
from training.budget import LONG, Budget
from training.config import TrainConfig
from training.loss_spikes import LossSpikes
from training.progress import Interval, Progress, mean_loss
from training.run_folder.log import RunLog, duration, short


class StepReport:
    """One log line on a training step, and its curves. Loss and norm may still be in transfer from the device."""

    def __init__(
        self, budget: Budget, interval: Interval, norm: Tensor, learning_rate: float, mfu: float | None, epoch: float
    ) -> None:
        """interval: the steps since the last report. norm: of the gradient. mfu: fraction of the peak FLOP/s, if known.
        epoch: of the data."""
        assert isinstance(interval.loss, Tensor)
        skipped = torch.as_tensor(interval.skipped_targets).to(norm)
        self.figures = HostCopy(torch.stack([interval.loss, norm, skipped]))
        self.progress = budget.progress
        self.step, self.targets, self.learning_rate = budget.progress.step, interval.targets, learning_rate
        trainer, done, rate = budget.trainer, budget.share_done(), interval.tokens_per_second
        milliseconds = 1000 * interval.seconds / interval.steps
        self.curves = {"speed/tokens_per_second": rate, "speed/milliseconds_per_step": milliseconds, "speed/mfu": mfu}
        of_steps = f"/{trainer.steps}" if trainer.steps else ""
        of_minutes = f" of {trainer.minutes:g} min" if trainer.minutes and budget.share_of_steps() < done else ""
        remaining = duration(budget.progress.seconds * (1 - done) / done) if done else "?"
        self.start = f"step {self.step}{of_steps} {100 * done:5.1f} %{of_minutes}"
        self.end = (
            f"{milliseconds:.0f} ms | {short(rate)} tok/s"
            + (f" | mfu {100 * mfu:.1f} %" if mfu else "")
            + f" | epoch {epoch:.2f} | eta {remaining}"
        )

    def write(self, log: RunLog, spikes: LossSpikes) -> None:
        """Write the line and the curves, and a warning if the loss jumps. Raises UserError if it is not finite."""
        total, norm, skipped_targets = self.figures.values()
        loss, rate = mean_loss(total, self.targets, skipped_targets), self.learning_rate
        check_finite("training loss", loss, self.step)
        skipped = self.progress.skipped_steps
        shown = "-" if loss is None else f"{loss:.4f}"
        end = self.end + (f" | skipped {skipped}" if skipped else "")
        log.line(f"{self.start} | loss {shown} | lr {rate:.2e} | norm {norm:.2f} | {end}")
        if loss is not None and (warning := spikes.report(self.step, loss, norm)):
            log.line(warning)
        training = {"train/loss": loss, "train/learning_rate": rate, "train/gradient_norm": norm}
        log.scalars(training | {"train/skipped_steps": skipped or None} | self.curves, self.step)


def long_evaluation(config: TrainConfig, seconds: float, training: float) -> str | None:
    """Return a note if an evaluation took a large fraction of the time. training: seconds of the steps before it."""
    share = seconds / (seconds + training)
    if seconds < LONG or share < 0.25:
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
    if last is not None and last > 1.01 * best:  # smaller increases are noise
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
