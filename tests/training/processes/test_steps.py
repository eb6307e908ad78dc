"""Optimiser steps shared by several processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.processes.step_losses import step_losses
from tests.training.processes.torchrun import forked

SCRIPT = Path(__file__).with_name("step_losses.py")
STEPS = 30


@pytest.mark.long
def test_the_number_of_processes_does_not_change_the_steps(tmp_path: Path) -> None:
    """Guards against gradients that are averaged per process instead of per token (the batches have targets of
    different lengths), summed twice, or left over where a process has no micro-batch: 4 micro-batches are shared by 2
    and 3 processes, 2 micro-batches by 3."""
    for processes, accumulated in ((2, (4,)), (3, (4, 2))):
        done = forked(processes, SCRIPT, str(STEPS), *map(str, accumulated), folder=tmp_path)
        assert done.returncode == 0, done.stderr
        for accumulate, result in zip(accumulated, json.loads(done.stdout), strict=True):
            alone = step_losses(accumulate, STEPS)
            assert alone[-1][0] < 0.9 * alone[0][0], "the model learns"
            for number, (step, expected) in enumerate(zip(result, alone, strict=True)):
                assert step[0] == pytest.approx(expected[0], rel=1e-6)
                norm_error = 3e-6 if number < 20 else 1e-3  # training amplifies the rounding of sums of other orders
                assert step[1] == pytest.approx(expected[1], rel=norm_error), "gradient norm"


@pytest.mark.slow
def test_a_gradient_that_is_bad_in_one_process_stops_all(tmp_path: Path) -> None:
    """Guards against processes with different weights, or one that waits for ever for the others, and against a bad
    batch or a cause that only the process of the batch knows."""
    done = forked(2, SCRIPT.with_name("bad_step.py"), str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    (unchanged, message), other = result
    assert unchanged
    assert other == [unchanged, message]
    assert message.startswith("step 2, forward pass: decoder.0 (CrossDecoderBlock) makes")
    assert "(micro-batch 1 of 1, rows 0), in process 1; the batch" in message
    bad = json.loads((tmp_path / "bad_batch.json").read_text(encoding="utf-8"))
    assert (bad["step"], len(bad["batches"])) == (2, 2)
