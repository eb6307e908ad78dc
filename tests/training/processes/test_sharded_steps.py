"""Steps of processes that divide optimiser state, or all weights, among themselves (`trainer.shard`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.processes.torchrun import forked

SCRIPT = Path(__file__).with_name("sharded_steps.py")


@pytest.mark.long
def test_sharding_saves_memory_and_changes_no_step(tmp_path: Path) -> None:
    """Guards against shares that are updated with another process's gradient, norms of a share alone, matrices cut by
    Muon, a process without a micro-batch, and state that every process keeps entirely. 2 processes share 3 batches."""
    forms = ("alone,optimizer,weights", "gpt,translate", "adamw,muon,scion")
    done = forked(2, SCRIPT, *forms, "3", "10", "32", folder=tmp_path)  # micro-batches per step, steps, width
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    alone = {name.removeprefix("alone "): result.pop(name) for name in list(result) if name.startswith("alone ")}
    assert (len(alone), len(result)) == (6, 12)
    for name, divided in result.items():
        shard, which = name.split(" ", 1)
        expected = alone[which]
        assert expected["losses"][-1] < 0.99 * expected["losses"][0], "the model learns"
        assert divided["losses"] == pytest.approx(expected["losses"], rel=1e-6), name
        # Bytes per float32 parameter: weights 4, gradient 4, moments 8 (4 of Muon and Scion), average 4. FSDP2 frees
        # the gradient after the update.
        state = 12 if which.endswith("adamw") else 8
        kept, shared = {"optimizer": (8, state), "weights": (0, 4 + state)}[shard]
        largest = (kept + 0.58 * shared) / (8 + state)  # 1/2, and padding
        assert max(divided["bytes"]) < largest * expected["bytes"][0], name
