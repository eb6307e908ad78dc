"""Report training progress: log lines with the same values as curves, and notes on evaluations and at the end."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from configs.errors import check_finite
from training.budget_and_schedules import LONG, Budget
from training.config import TrainConfig
from training.counters import Interval, Progress
from training.hardware.device import Hardware
from training.loss_spikes import LossSpikes
from training.run_folder.log import RunLog, duration, short


class StepLog:
    """Writes the log lines of training steps, with their curves, and warns of losses that jump and evaluations that
    take long."""

    def __init__(self, config: TrainConfig, budget: Budget, hardware: Hardware, flops_per_token: float) -> None:
        """flops_per_token: of all processes together."""
        self.config, self.budget = config, budget
        self.share_of_peak = flops_per_token / hardware.peak_flops if hardware.peak_flops else None
        self.spikes = LossSpikes()
        self.noted_long_evaluation = False

    def line(
        self, log: RunLog, interval: Interval, norm: Tensor, learning_rate: float, epoch: float
    ) -> tuple[Tensor, Callable[..., None]]:
        """Prepare the log line of the step that has just been counted -> its results that the device may still compute,
        and what writes the line once they are known.

        interval: the steps since the last line. norm: of the gradient. epoch: of the data.
        """
        trainer, progress, done = self.config.trainer, self.budget.progress, self.budget.share_done()
        rate, milliseconds = interval.tokens_per_second, 1000 * interval.seconds / interval.steps
        mfu = self.share_of_peak and rate * self.share_of_peak
        curves = {"speed/tokens_per_second": rate, "speed/milliseconds_per_step": milliseconds, "speed/mfu": mfu}
        of_steps = f"/{trainer.steps}" if trainer.steps else ""
        of_minutes = f" of {trainer.minutes:g} min" if trainer.minutes and self.budget.share_of_steps() < done else ""
        remaining = duration(progress.seconds * (1 - done) / done) if done else "?"
        start = f"step {progress.step}{of_steps} {100 * done:5.1f} %{of_minutes}"
        end = (
            f"{milliseconds:.0f} ms | {short(rate)} tok/s"
            + (f" | mfu {100 * mfu:.1f} %" if mfu else "")
            + f" | epoch {epoch:.2f} | eta {remaining}"
        )
        step, targets = progress.step, max(1, interval.targets)

        def write(total: float, norm: float) -> None:
            """Raises UserError if the loss is not finite."""
            loss = total / targets
            check_finite("training loss", loss, step)
            log.line(f"{start} | loss {loss:.4f} | lr {learning_rate:.2e} | norm {norm:.2f} | {end}")
            if warning := self.spikes.report(step, loss, norm):
                log.line(warning)
            training = {"train/loss": loss, "train/learning_rate": learning_rate, "train/gradient_norm": norm}
            log.scalars(training | curves, step)

        assert isinstance(interval.loss, Tensor)
        return torch.stack([interval.loss, norm]), write

    def note_long_evaluation(self, log: RunLog, seconds: float, training: float) -> None:
        """Write a note about the first evaluation that takes a large fraction of the time. training: seconds of the
        steps before it."""
        note = None if self.noted_long_evaluation else long_evaluation(self.config, seconds, training)
        if note is not None:
            log.line(note)
            self.noted_long_evaluation = True


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
