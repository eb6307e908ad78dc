"""What the log says of training: one informative line, and the same numbers as curves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from model.replay import Readback
from training.errors import check_finite
from training.run_log import RunLog, duration, short


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
    loss_and_norm: Readback

    def write(self, log: RunLog) -> None:
        """Into the log and TensorBoard. Raises UserError when the loss is not finite."""
        total, norm = self.loss_and_norm.values()
        loss = total / max(1, self.targets)
        check_finite("training loss", loss, self.step)
        of_steps = f"/{self.steps}" if self.steps else ""
        of_minutes = f" of {self.minutes:g} min" if self.minutes else ""
        log.line(
            f"step {self.step}{of_steps} {100 * self.share_done:5.1f} %{of_minutes} | loss {loss:.4f} | lr {self.learning_rate:.2e} | norm {norm:.2f} | "
            f"{self.milliseconds:.0f} ms | {short(self.tokens_per_second)} tok/s"
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
