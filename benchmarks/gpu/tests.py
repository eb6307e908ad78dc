"""Run the tests that need a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.figures import Figure, StageSettings, stage
from benchmarks.harness import ROOT

AT_ONCE = 3
"""Number of pytest-xdist workers per test file, if installed: most of the time is spent compiling. One in a dry run,
in which each worker does little but import torch."""


@stage
def tests(settings: StageSettings) -> Iterator[Figure]:
    """Run `pytest -m gpu` on tests/gpu/test_*.py, all files in parallel; report the counts and each failure."""
    deadline = time.monotonic() + settings.seconds
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "4"}
    workers = ["-n", "1" if settings.dry_run else str(AT_ONCE)] if find_spec("xdist") else []
    options = ["-m", "gpu", "-p", "no:cacheprovider", "-ra", *workers]
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for path in sorted((ROOT / "tests" / "gpu").glob("test_*.py")):
            report = Path(folder) / f"{path.stem}.xml"
            command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", str(path)]
            running.append((path, report, subprocess.Popen(command, cwd=ROOT, env=environment)))
        for path, report, process in running:
            what = f"tests marked gpu, {path.name}"
            try:
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                yield Figure(what, status="not measured: no time left; stages=tests gives it the whole time")
                continue
            if report.exists():
                yield from outcome(ElementTree.parse(report).getroot(), what)
            else:
                yield Figure(what, status=f"failed: pytest ended with exit code {code}")


def outcome(report: ElementTree.Element, what: str = "tests marked gpu") -> list[Figure]:
    """Return the counts of a JUnit report, and a figure for each failed test."""
    failed, counts = [], {"passed": 0, "failed": 0, "skipped": 0}
    for case in report.iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None:
            reason = " ".join(problem.get("message", "").split())[:120]
            failed.append(Figure(str(case.get("name")), status=f"failed: {reason}"))
        counts["failed" if problem is not None else "skipped" if case.find("skipped") is not None else "passed"] += 1
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return [Figure(what, shown, facts=counts), *failed]
