"""Learning-rate schedules: pure functions, nothing to save, nothing to restore."""

from __future__ import annotations

import math

from training.config import ScheduleConfig

WARMUP_SHARE = 0.1
"""Of a budget, the longest warm-up: always of minutes, and of steps where the warm-up is a default
(`training.composed_run`)."""


def learning_rate_factor(config: ScheduleConfig, step: int, progress: float, warmed_up_time: float = 0.0) -> float:
    """The share of the peak learning rate to use for the update from `step` to `step + 1`.

    There are two clocks. `progress` in [0, 1] is the part of the budget that is spent, step / steps or elapsed /
    allowed time, evaluations and all starts included: a decay with an end goes by it, so that it ends when the budget
    does. `warmed_up_time` is the share of a wall-clock budget that counts for warm-up (`Budget.share_warmed_up`), 0
    without one: warm-up counts steps, and ends by this clock where they are slow. The decay of `inverse_sqrt`, which
    has no end, goes on by the clock of the warm-up.
    """
    warmed_up = max((step + 1) / (config.warmup + 1), warmed_up_time / WARMUP_SHARE)  # 1 at the peak
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
