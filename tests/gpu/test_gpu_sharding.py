"""Divided weights on a GPU (`trainer.shard`), with NCCL (on a CPU: gloo). Run with `pytest -m gpu`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gpu.device import DEVICE, marks
from tests.training.processes.torchrun import torchrun

pytestmark = marks

SCRIPT = Path(__file__).with_name("sharded_steps.py")


def test_divided_weights_train_alike_on_a_gpu(tmp_path: Path) -> None:
    """Guards against collectives that NCCL refuses, tensors on the wrong device, and a checkpoint that is lost."""
    done = torchrun(1, SCRIPT, str(DEVICE), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    for name, losses in result.items():
        plain = result[f"none {name.split(' ', 1)[1]}"]
        assert losses == pytest.approx(plain, rel=5e-3), name
        assert losses[-1] < losses[0]
