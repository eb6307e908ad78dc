"""Give every process the same number of micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from data.batches.batch import IGNORED, Batch


def in_lockstep(batches: Sequence[Batch], count: int, task: str) -> list[Batch]:
    """Return `count` batches: those given, and copies of the last one without targets, whose loss and gradient are 0.

    A process without any gets batches of one token. The forward and backward pass of FSDP2 exchange parameters, so that
    all processes must run equally many.
    """
    if len(batches) >= count:
        return list(batches)
    if batches:
        last = batches[-1]
    else:
        token = torch.zeros((1, 1), dtype=torch.int64)
        last = Batch(token, token, token if task == "translate" else None)
    silent = replace(last, targets=torch.full_like(last.targets, IGNORED))
    return [*batches, *[silent] * (count - len(batches))]
