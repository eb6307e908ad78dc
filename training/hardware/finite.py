"""Decide whether an optimiser step is applied: not if its gradient contains NaN or infinity.

The decision depends on the gradient's norm alone. With several processes this is the norm of the summed gradient, so
that all processes decide equally.
"""

from __future__ import annotations

import math

from torch import Tensor

Applied = bool | Tensor
"""Whether a step is applied: a bool where the norm can be read at no cost, else a boolean scalar on the device."""


def is_applied(norm: Tensor) -> Applied:
    """Return whether to apply a step whose gradient has this norm.

    Reading a number from a GPU would wait for its queue. There the result stays on the device: AdamW's fused kernel
    leaves everything unchanged if it is False, as in torch's gradient scaler, and other updates are masked.
    """
    return math.isfinite(norm.item()) if norm.device.type == "cpu" else norm.isfinite()
