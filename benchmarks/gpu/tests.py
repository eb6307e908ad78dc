"""Run the tests that need a GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.figures import Figure, Inputs
from benchmarks.harness import ROOT, environment
from data.cpu_cores import cores

ALL = "all tests marked gpu"
OUTCOME = "(PASSED|FAILED|ERROR|SKIPPED)"
RESULT = re.compile(rf"^\[gw\d+\] .*\] {OUTCOME} (\S+::\S+)|^(\S+::\S+) {OUTCOME}")
"""A line of `pytest -v`, with and without xdist."""

REASON = re.compile(r"^(?:FAILED|ERROR) (\S+\.py\S*)(?: - (.*))?$")
"""A line of pytest's summary."""


def tests(inputs: Inputs) -> Iterator[Figure]:
    """Run `pytest -m gpu` on tests/gpu and count the results."""
    return run_tests(ROOT / "tests" / "gpu", 1 if inputs.dry_run else max(1, cores() // 2))


def run_tests(folder: Path, workers: int) -> Iterator[Figure]:
    """Run the tests of a folder that are marked `gpu`; yield a figure for each failure as soon as it is known, with its
    reason at the end, and one for all tests."""
    options = ["-v", "-m", "gpu", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    parallel = ["-n", str(workers), "--maxschedchunk=1"] if workers > 1 and find_spec("xdist") else []
    variables = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "2", "COLUMNS": "300"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *parallel, str(folder)],
        cwd=ROOT,
        env=environment(variables),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    counts: Counter[str] = Counter()
    for line in process.stdout:
        print(end=line, flush=True)
        if match := REASON.match(line):
            counts["error"] += "::" not in match[1]  # a file that cannot be imported
            yield Figure(match[1], status=f"failed: {(match[2] or 'not imported')[:200]}")
        elif match := RESULT.match(line):
            outcome, name = match[1] or match[4], match[2] or match[3]
            counts[outcome.lower()] += 1
            if outcome in ("FAILED", "ERROR"):
                yield Figure(name, status="failed")
    code = process.wait()
    text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no tests"
    # 5: no tests were collected, as without a GPU.
    yield Figure(ALL, text, status="measured" if code in (0, 5) else f"failed: {text}; exit code {code}")
