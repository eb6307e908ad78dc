"""Run the tests that need a GPU. This module is the stage, and the pytest plugin that stores each result at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.gpu.figures import MEASURED, RUNNING, WHOLE, Figure, Results
from benchmarks.gpu.stage import Measurement, Report, StageSettings, answers, stage
from benchmarks.harness import ROOT, environment
from data.cpu_cores import cores

SLOWEST = ("test_gpu_step.py", "test_gpu_sharding.py", "test_gpu_decoding.py", "test_gpu_attention.py")
"""Test files that compile much, the slowest first; the others follow."""

ALL = "all tests marked gpu"
IMPORT = ", import"
"""End of the name of a test file's figure if it could not be imported."""

LEAVING = 8.0
"""Seconds after the last test until pytest is left: once, on a busy machine, it waited for its workers for a minute."""

STARTING = 20.0
"""Time in which workers import the tests, and a few tests run."""


@stage
def tests(settings: StageSettings) -> Iterator[Measurement]:
    """Run `pytest -m gpu` on tests/gpu, except the tests that have passed; store the result of each test at once."""
    yield Measurement((ALL,), lambda _, report: run(ROOT / "tests" / "gpu", settings, report), STARTING)


def run(folder: Path, settings: StageSettings, report: Report) -> None:
    """Run the tests of a folder in one pytest, with a worker for every two cores, and report whether all have run."""
    order = {name: number for number, name in enumerate(SLOWEST)}
    paths = sorted(folder.glob("test_*.py"), key=lambda path: (order.get(path.name, len(order)), path.name))
    count = 1 if settings.dry_run else max(1, cores() // 2)
    # Each worker has at most two tests at a time, in the order of the files.
    workers = ["-n", str(count), "--dist=load", "--maxschedchunk=1"] if find_spec("xdist") else []
    plugin = ["-p", "no:cacheprovider", "-p", __name__, "-o", "faulthandler_timeout=60"]
    plugin += ["--no-summary", "--continue-on-collection-errors"]
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "2"}
    with tempfile.TemporaryDirectory() as temporary:
        given = Path(temporary) / "given.json"
        results = settings.results
        own = {"machine": settings.machine, "commit": settings.commit, "dry_run": settings.dry_run}
        chosen = {"done": [*results.settled("tests")], "late": [*results.late("tests")]}
        values = {"out": settings.out, **own, **chosen}
        given.write_text(json.dumps(values), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-m", "gpu", *plugin, f"--given={given}", *workers, *map(str, paths)]
        report(Figure.underway(ALL, "importing the tests"))
        process = subprocess.Popen(command, cwd=ROOT, env=environment(threads), stdin=subprocess.DEVNULL)
        try:
            while (code := process.poll()) is None and time.monotonic() < settings.deadline:
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    report(outcome(settings, code))


def outcome(settings: StageSettings, code: int | None) -> Figure:
    """Return the figure for all tests, after an exit code of pytest, or None if it was stopped. Raises RuntimeError if
    pytest itself has failed."""
    if code not in (None, pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"pytest ended with exit code {code}")
    figures = settings.results.own(settings.results.figures(), "tests")
    results_of_tests = [figure for figure in figures if figure.what not in (ALL, WHOLE)]
    outcomes = Counter(figure.outcome for figure in results_of_tests if "file" in figure.facts)
    counts = ", ".join(f"{number} {name}" for name, number in outcomes.items())
    if code is None:
        return Figure.underway(ALL, f"running tests: {counts or 'none has ended'}")
    settled = settings.results.settled("tests")
    if again := [figure for figure in results_of_tests if figure.failed and figure.what not in settled]:
        return Figure(ALL, status=f"not measured: {counts}; the next run repeats the {len(again)} that failed")
    return Figure(ALL, counts, facts=dict(outcomes))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which the stage tells the plugin where to store results."""
    parser.addoption("--given", help="JSON file: folder of the results, and the tests that need not run")


def pytest_configure(config: pytest.Config) -> None:
    """Choose tests in every worker; store results in the main process only."""
    values = json.loads(Path(config.option.given).read_text(encoding="utf-8"))
    done, late = {*values.pop("done")}, {*values.pop("late")}
    config.pluginmanager.register(Selection(done, late))
    if not hasattr(config, "workerinput"):
        results = Results(Path(values.pop("out")), **values)
        config.pluginmanager.register(Storage(results, config))


class Selection:
    """Leaves out the tests that are done, and ends a process that can no longer use the GPU."""

    def __init__(self, done: set[str], late: set[str]) -> None:
        self.done, self.late = done, late

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests that are done; those that may hang or fail again come last."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.done])
        items[:] = [item for item in items if item.nodeid not in self.done]
        items.sort(key=lambda item: item.nodeid in self.late)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Leave the other tests to another worker, or to the next run, if the GPU no longer answers."""
        if not answers():
            os._exit(pytest.ExitCode.TESTS_FAILED)


class Storage:
    """Stores the result of each test as soon as it has ended, and prints failures with their tracebacks."""

    def __init__(self, results: Results, config: pytest.Config) -> None:
        self.results, self.config = results, config
        self.skipped: dict[str, str] = {}
        self.failed: set[str] = set()
        self.broken = {one.what for one in results.own(results.figures(), "tests") if one.what.endswith(IMPORT)}
        self.ended: set[str] = set()
        self.count = -1

    def store(self, nodeid: str, status: str) -> None:
        """Store the status of a test."""
        self.results.add("tests", Figure(nodeid, status=status, facts={"file": nodeid.partition("::")[0]}))

    def count_tests(self, ids: Sequence[str]) -> None:
        """Report the number of tests, the first time, and which files can be imported now."""
        if self.count < 0:
            self.count = len(ids)
            for what in self.broken - self.failed:
                self.results.add("tests", Figure(what, "works now"))
            self.results.add("tests", Figure.underway(ALL, f"running {self.count} tests"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Count the tests that a worker has collected."""
        self.count_tests(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests, without workers."""
        self.count_tests(session.items)  # type: ignore[arg-type]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Store that a file cannot be imported."""
        if report.failed:
            self.fail(report, f"{report.nodeid}{IMPORT}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test is running."""
        self.store(nodeid, RUNNING)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store a failure at once, other results at the end of the test."""
        if report.failed:
            self.fail(report, report.nodeid, file=report.nodeid.partition("::")[0])
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[report.nodeid] = reason.removeprefix("Skipped: ")
        elif report.when == "teardown" and report.nodeid not in self.failed:
            skipped = self.skipped.get(report.nodeid)
            self.store(report.nodeid, MEASURED if skipped is None else f"skipped: {skipped}"[:160])

        if report.when == "teardown":
            self.ended.add(report.nodeid)
            if len(self.ended) == self.count:
                leave = threading.Timer(LEAVING, os._exit, [int(bool(self.failed))])
                leave.daemon = True
                leave.start()

    def fail(self, report: pytest.CollectReport | pytest.TestReport, what: str, **facts: str) -> None:
        """Store and print a failure, of a test only the first."""
        if what in self.failed:
            return
        self.failed.add(what)
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else (report.longreprtext.strip().splitlines() or ["no reason given"])[-1]
        self.results.add("tests", Figure(what, status=f"failed: {' '.join(reason.split())}"[:240], facts=facts))
        writer = self.config.get_terminal_writer()
        writer.line(f"\nFAILED {report.nodeid}\n{report.longreprtext}")
        writer.flush()
