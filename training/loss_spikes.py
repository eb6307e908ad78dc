"""Notice a training loss that jumps far above its recent level."""

from __future__ import annotations

from collections import deque
from statistics import median

WINDOW, LEAST = 40, 10
"""Log lines whose losses are the recent level, and the number of them without which nothing is reported."""

FACTOR, SHARE = 8.0, 0.1
"""A spike is above the median by FACTOR typical deviations and by SHARE of the median. The deviation is 1.4826 times
the median absolute deviation, which equals the standard deviation of normally distributed losses, but ignores earlier
spikes. The falling loss of a young run widens the window's spread, so that the rule becomes more careful there."""


class LossSpikes:
    """The recent losses of the log lines of this process. The first line of a spike is reported."""

    def __init__(self) -> None:
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.high = False

    def report(self, step: int, loss: float, norm: float) -> str | None:
        """Add the mean loss of a log line, in nats per token -> a warning if a spike begins with it."""
        was_high, self.high = self.high, False
        warning = None
        if len(self.recent) >= LEAST:
            level = median(self.recent)
            deviation = 1.4826 * median(abs(past - level) for past in self.recent)
            self.high = loss > level + max(FACTOR * deviation, SHARE * level)
            if self.high and not was_high:
                warning = (
                    f"warning: the loss jumps at step {step}: {loss:.4f}, after a median of {level:.4f} in the last"
                    f" {len(self.recent)} lines (typical deviation {deviation:.4f}); gradient norm {norm:.2f}"
                )
        self.recent.append(loss)
        return warning
