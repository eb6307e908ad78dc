"""Run one stage in its own process: its measurements in order, each figure stored as soon as it is yielded."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.figures import COMPLETE, INCOMPLETE, NO_TIME, WHOLE, Figure, Results
from benchmarks.results import CUT
from benchmarks.worker import synchronize

LIFELINE = "CHUMOKU_GPU_LIFELINE"
"""Environment variable with the descriptor of a pipe whose other end closes when the call `gpu` ends or is killed."""


@dataclass
class Inputs:
    """Settings common to the command `gpu` and its stages."""

    dry_run: bool = False
    """Use tiny sizes, also without a GPU: checks that everything runs, measures nothing."""

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's rows are skipped."""

    text: str = ""
    """A text file (tinyshakespeare); if empty, training on it is skipped."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; if empty, training on it is skipped."""

    @property
    def given(self) -> str:
        """The names of the inputs that are given."""
        return " ".join(name for name in ("nanogpt", "text", "pairs") if getattr(self, name))


@dataclass
class StageSettings(Inputs):
    """Settings of every stage."""

    out: str = "gpu"
    """Folder of the results, `gpu.jsonl` and `gpu.md`, to which the figures are added."""

    until: float = 0.0
    """Unix time at which the stage should end, 0 for ten minutes from now. Measurements that do not fit are reported as
    not measured."""

    machine: str = ""
    """GPU and torch version, stored with every figure."""

    commit: str = ""
    """State of this project, stored with every figure; only figures of the same state are not measured again."""

    @functools.cached_property
    def results(self) -> Results:
        """The results to which the figures are added."""
        return Results(Path(self.out), self.machine, self.commit, self.dry_run)

    @functools.cached_property
    def deadline(self) -> float:
        """`until` on the clock `time.monotonic`."""
        return time.monotonic() + (self.until - time.time() if self.until else 600.0)


Report = Callable[[Figure], None]
"""Stores a figure; it is on disk when the call returns."""


@dataclass(frozen=True)
class Measurement:
    """A part of a stage that is measured, reported and repeated by itself."""

    names: tuple[str, ...]
    """Names of its figures; those that are settled are not measured again. It may report more figures than these."""

    take: Callable[[Sequence[str], Report], None]
    """Measures the given names, and reports each figure as soon as it exists; before that, what it does, as a figure
    `underway`. An exception is a failure of this measurement only."""

    seconds: float
    """Time without which it is not begun."""


def single(name: str, figure: Callable[[], Figure], seconds: float) -> Measurement:
    """Return the measurement of a single figure."""
    return Measurement((name,), lambda _, report: report(figure()), seconds)


Plan = Callable[[StageSettings], Iterable[Measurement]]


def stage(plan: Plan) -> Callable[[StageSettings], None]:
    """Decorate a function that yields the measurements of the stage of its name: run those that are not settled, until
    one of them leaves a GPU that this process can no longer use."""

    @functools.wraps(plan)
    def run(settings: StageSettings) -> None:
        if lifeline := os.environ.pop(LIFELINE, ""):
            end_with_the_call(int(lifeline))
        name, results, started = plan.__name__, settings.results, time.monotonic()
        Path(settings.out).mkdir(parents=True, exist_ok=True)
        late = results.late(name)
        measurements = sorted(plan(settings), key=lambda one: not late.isdisjoint(one.names))
        for measurement in measurements:
            settled = results.settled(name)
            if wanted := [what for what in measurement.names if what not in settled]:
                take(measurement, wanted, name, settings)
                if not answers():
                    break
        skipped = {figure.what for figure in results.figures(name) if figure.status.startswith("skipped")}
        names = {what for measurement in measurements for what in measurement.names}
        remaining = names - results.settled(name) - skipped
        took = time.monotonic() - started
        status = INCOMPLETE if remaining else COMPLETE
        results.add(name, Figure(WHOLE, f"{took:.0f} s", status=status, facts={"given": settings.given}))

    return run


def take(measurement: Measurement, wanted: list[str], name: str, settings: StageSettings) -> None:
    """Take one measurement of a stage and store its figures; a failure, or no time, becomes the status of the wanted
    figures."""
    results = settings.results
    if time.monotonic() + measurement.seconds > settings.deadline:
        for what in wanted:
            results.add(name, Figure(what, status=NO_TIME))
        return
    missing = set(wanted)

    def report(figure: Figure) -> None:
        results.add(name, figure)
        print(*figure.cells, sep=" | ", flush=True)
        if not figure.status.startswith(CUT):
            missing.discard(figure.what)

    for what in wanted:
        report(Figure.underway(what, "starting"))
    try:
        measurement.take(wanted, report)
    except Exception as error:
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        for what in [*missing]:
            report(Figure(what, status=f"failed: {reason}"))


def answers() -> bool:
    """Whether this process can still use the GPU, if it does: after some errors of a kernel all that follows fails."""
    try:
        synchronize()
    except Exception:
        traceback.print_exc()
        return False
    return True


def end_with_the_call(lifeline: int) -> None:
    """Kill this process and all that it has started as soon as the call ends or is killed, so that the next call finds
    the GPU free."""
    adopt_orphans()

    def wait() -> None:
        os.read(lifeline, 1)  # returns when the other end of the pipe is closed
        end_children()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def adopt_orphans() -> None:
    """Make this process the parent of processes whose parent ends (Linux), so that `end_children` finds them."""
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def end_children(others: Collection[int] = (), seconds: float = 10.0) -> None:
    """Kill the child processes of this process, except some others, and then those that they leave behind (Linux)."""
    limit = time.monotonic() + seconds
    while (running := set(children()) - set(others)) and time.monotonic() < limit:
        for child in running:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def children() -> list[int]:
    """Return the child processes of this process that have not ended (Linux)."""
    pids = []
    for folder in Path("/proc").iterdir() if sys.platform == "linux" else ():
        with suppress(OSError, ValueError):  # it has ended meanwhile, or is no process
            pid, text = int(folder.name), (folder / "stat").read_text(encoding="utf-8", errors="replace")
            state, parent = text.rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                pids.append(pid)
    return pids
