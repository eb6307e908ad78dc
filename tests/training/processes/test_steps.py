"""Optimiser steps shared by several processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.processes.torchrun import torchrun

SCRIPT = Path(__file__).with_name("step_losses.py")


def losses(processes: int, folder: Path, *, accumulate: int, steps: int = 50) -> list[float]:
    """Return the loss of each step."""
    done = torchrun(processes, SCRIPT, str(accumulate), str(steps), folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_the_steps(tmp_path: Path) -> None:
    """Guards against gradients that are averaged per process instead of per token (the batches have targets of
    different lengths), summed twice, or left over where a process has no micro-batch: 4 micro-batches are shared by 1,
    2, 3 and 4 processes, 2 micro-batches by 3."""
    for accumulate, counts in ((4, (2, 3, 4)), (2, (3,))):
        alone = losses(1, tmp_path, accumulate=accumulate)
        assert alone[-1] < 0.9 * alone[0]
        for count in counts:
            assert losses(count, tmp_path, accumulate=accumulate) == pytest.approx(alone, rel=1e-6)
