"""The examples of docs/examples: they run, are short, and their recordings are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attention_maps.files.store import load, steps
from tests.conftest import ROOT, environment

EXAMPLES = {
    "gpt2": ({"runs/gpt2": [0], "runs/gpt2_writes": [0]}, "'it' attends to 'apple': "),
    "bert": ({"runs/bert/runs/*": [0, 12]}, "eval_loss"),
    "marian": ({"runs/marian": [0]}, "cross: (4, "),
    "llama": ({"runs/llama": [0]}, "8 query heads share 2 heads of keys: (2, 8, "),
}
"""The runs of each example with their recorded steps, and what it prints."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_records(name: str, tmp_path: Path) -> None:
    """Guards against examples that no longer run."""
    script = ROOT / "docs" / "examples" / f"{name}.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40
    environ = environment() | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    runs, printed = EXAMPLES[name]
    assert printed in done.stdout
    for pattern, recorded in runs.items():
        (run,) = tmp_path.glob(pattern)
        recordings = steps(run)
        assert {recorded[0], recorded[-1]} <= recordings.keys()
        for sample in load(recordings[recorded[-1]]).samples:
            for (kind, _), weights in sample.weights.items():
                assert np.abs(weights.astype(np.float32).sum(axis=-1) - 1).max() < 5e-3
                assert kind != "decoder" or not np.triu(weights, 1).any()
