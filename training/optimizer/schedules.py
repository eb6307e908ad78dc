"""Compute learning-rate schedules as pure functions of step and progress."""

from __future__ import annotations

import math

from training.config import ScheduleConfig

WARMUP_SHARE = 0.1
"""Maximum warm-up as a fraction of the budget; for a budget in steps, only if the warm-up is not set by the user."""


def learning_rate_factor(config: ScheduleConfig, step: int, progress: float, warmed_up_time: float = 0.0) -> float:
    """Return the fraction of the peak learning rate for the update from `step` to `step + 1`.

    Schedules use two clocks. `progress` in [0, 1] is the fraction of the budget spent (steps, or elapsed time including
    evaluations and all starts); decays with an end follow it, so that they end with the budget. `warmed_up_time` is the
    fraction of a time budget that counts towards warm-up (`Budget.share_warmed_up`), 0 without one: warm-up counts
    steps, but ends earlier by time if steps are slow. `inverse_sqrt`, which has no end, continues on the warm-up clock.
    """
    warmed_up = max((step + 1) / (config.warmup + 1), warmed_up_time / WARMUP_SHARE)  # 1 at the peak
    if warmed_up < 1:
        return warmed_up
    progress = min(max(progress, 0.0), 1.0)
    if config.kind == "constant":
        return 1.0
    if config.kind == "inverse_sqrt":  # Vaswani et al. 2017, section 5.3, peak at the end of warm-up
        return 1 / math.sqrt(warmed_up)
    if config.kind == "cosine":  # Loshchilov & Hutter 2017
        return config.final + (1 - config.final) * 0.5 * (1 + math.cos(math.pi * progress))
    if config.kind == "linear":
        return config.final + (1 - config.final) * (1 - progress)
    if config.kind == "wsd":  # Hu et al. 2024: warm-up, stable, decay
        return 1.0 if config.decay == 0 else config.final + (1 - config.final) * min(1.0, (1 - progress) / config.decay)
    raise ValueError(f"schedule.kind={config.kind}")
