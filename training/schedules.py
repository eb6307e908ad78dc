"""Learning-rate schedules: pure functions, nothing to save, nothing to restore."""

from __future__ import annotations

import math

from training.config import ScheduleConfig

WARMUP_SHARE = 0.1
"""Of a budget of minutes, the longest warm-up."""


def learning_rate_factor(config: ScheduleConfig, step: int, progress: float, time_spent: float = 0.0) -> float:
    """The share of the peak learning rate to use for the update from `step` to `step + 1`.

    `progress` in [0, 1] is the part of the budget that is spent: step / steps, or elapsed / allowed time.
    Warm-up counts steps, the rest follows progress, so that a wall-clock budget anneals fully too. `time_spent`: the share of
    a wall-clock budget that steps have taken, 0 without one; it ends the warm-up where the steps are slow.
    """
    warmed_up = max((step + 1) / (config.warmup + 1), time_spent / WARMUP_SHARE)  # 1 at the peak
    if warmed_up < 1:
        return warmed_up
    progress = min(max(progress, 0.0), 1.0)
    if config.kind == "constant":
        return 1.0
    if config.kind == "inverse_sqrt":  # Vaswani et al. 2017, section 5.3, with the peak at the end of the warm-up
        return 1 / math.sqrt(warmed_up)
    if config.kind == "cosine":  # Loshchilov & Hutter 2017
        return config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * progress))
    if config.kind == "linear":
        return config.final + (1 - config.final) * (1 - progress)
    if config.kind == "wsd":  # Hu et al. 2024: warm-up, stable, decay
        return 1.0 if config.decay == 0 else config.final + (1 - config.final) * min(1.0, (1 - progress) / config.decay)
    raise ValueError(f"schedule.kind={config.kind}")
