"""Steps of processes that divide optimiser state, or all weights, among themselves (`trainer.shard`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.processes.torchrun import torchrun

SCRIPT = Path(__file__).with_name("sharded_steps.py")
SHARDS = ("optimizer", "weights")


def trained(processes: int, shards: tuple[str, ...], folder: Path, *, accumulate: int, steps: int) -> dict:
    """Return the losses and the bytes of tensors in each process, by form, task and optimiser."""
    arguments = ",".join(shards), "gpt,translate", "adamw,muon", str(accumulate), str(steps), "32"
    done = torchrun(processes, SCRIPT, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_dividing_state_among_processes_saves_memory_and_changes_no_step(tmp_path: Path) -> None:
    """Guards against shares that are updated with another process's gradient, norms of a share alone, matrices cut by
    Muon, a process without a micro-batch, and state that every process keeps entirely. 2 processes share 3 batches."""
    alone = trained(1, ("none",), tmp_path, accumulate=3, steps=20)
    divided = trained(2, SHARDS, tmp_path, accumulate=3, steps=20)
    assert len(divided) == 4 * len(SHARDS)
    for name, found in divided.items():
        shard, which = name.split(" ", 1)
        expected = alone[f"none {which}"]
        assert expected["losses"][-1] < 0.97 * expected["losses"][0], "the model learns"
        assert found["losses"] == pytest.approx(expected["losses"], rel=1e-6), name
        # Bytes per float32 parameter: weights 4, gradient 4, moments 8 (Muon's matrices 4), average 4.
        kept = {"optimizer": 8, "weights": 0}[shard]
        state = 12 if which.endswith("adamw") else 8
        largest = (kept + 0.58 * (8 - kept + state)) / (8 + state)  # 1/2, and padding
        assert max(found["bytes"]) < largest * expected["bytes"][0], name
