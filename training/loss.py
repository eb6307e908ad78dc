"""Cross-entropy, summed: the mean is taken over all tokens of a step, however they are spread over micro-batches."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from data.batches import IGNORED


def summed_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Sum over real tokens of the cross-entropy in nats.

    logits [B, T, V] of any float type (computed in float32), targets [B, T] int64 with IGNORED at padding -> scalar float32.
    Label smoothing after Szegedy et al. 2016, section 7.
    """
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
