"""The tests that only a GPU can run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from benchmarks.gpu.figures import Figure, Sheet, StageSettings
from benchmarks.harness import ROOT


def tests(settings: StageSettings) -> None:
    """`pytest -m gpu` over tests/test_gpu*.py: how many passed, and the name of each that did not."""
    sheet = Sheet(settings.to)
    files = sorted(str(path) for path in (ROOT / "tests").glob("test_gpu*.py"))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "gpu",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            "-ra",
            *files,
        ]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if not report.exists():
            sheet.add(Figure("tests marked gpu", status=f"failed: pytest ended with code {done.returncode}"))
            return
        sheet.add(*outcome(ElementTree.parse(report).getroot()))


def outcome(report: ElementTree.Element) -> list[Figure]:
    """The counts of a JUnit report, and a line for each test that failed."""
    failed, counts = [], {"passed": 0, "failed": 0, "skipped": 0}
    for case in report.iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        kind = "failed" if problem is not None else "skipped" if case.find("skipped") is not None else "passed"
        counts[kind] += 1
        if problem is not None:
            reason = " ".join(problem.get("message", "").split())[:120]
            failed.append(Figure(str(case.get("name")), status=f"failed: {reason}"))
    shown = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return [Figure("tests marked gpu", shown, facts=counts), *failed]
