"""A small, fixed part of `make fuzz`: the same 200 cases each time, in a process without threads."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT, environment


@pytest.mark.slow
def test_two_hundred_generated_inputs_work_or_are_refused_in_one_line() -> None:
    """Guards against tracebacks, hangs, half-made folders and changed inputs; the report names the simplest case."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.robustness.fuzz", "cases=200", "seed=16", "quick=true"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    total = re.search(r"fuzz, seed 16: (\d+) cases: (\d+) worked, (\d+) refused", done.stdout)
    assert total, done.stdout
    cases, worked, refused = map(int, total.groups())
    assert cases == worked + refused >= 180
    assert min(worked, refused) > 40, "most cases must not end at the first check"
