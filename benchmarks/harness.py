"""Measure contenders in alternating turns, each in its own process, so that machine noise affects all of them alike."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from benchmarks.contender import Benchmark, Contender
from benchmarks.machine import describe_machine, versions
from benchmarks.report import full_table
from benchmarks.results import CUT, Result, Row
from configs.errors import UserError
from configs.program import expanded

ROOT = Path(__file__).resolve().parent.parent

_ROOM = 1.4
"""Overhead factor on the nominal time of a turn, for the uncounted step before it and a last step that exceeds it."""

_CLOSING = 20.0
"""Seconds after which a process that does not end is killed."""


def _limits(name: str, onednn: str) -> dict[str, str]:
    libraries = dict.fromkeys(("MKL_ENABLE_INSTRUCTIONS", "CT2_FORCE_CPU_ISA"), name.upper())
    torch = dict.fromkeys(("ATEN_CPU_CAPABILITY", "TORCH_COMPILE_CACHE_KEY_TAG"), name)
    return {"ONEDNN_MAX_CPU_ISA": onednn} | libraries | torch


LIMITS: Mapping[str, Mapping[str, str]] = {
    "native": {},
    "avx512": _limits("avx512", "AVX512_CORE"),
    "avx2": _limits("avx2", "AVX2"),
}
"""Environment variables by instruction set, for oneDNN, torch's own and compiled kernels, MKL and CTranslate2: they
estimate the speed of an older processor on a newer one.

The cache tag separates compiled code by instruction set: torch 2.13 would otherwise reuse code across sets."""


@dataclass
class MeasureSettings:
    """Settings common to all benchmarks."""

    rounds: int = 5
    """Number of measured turns per contender; the results are medians over these turns."""

    seconds: float = 2.0
    """Duration of a turn in seconds; a turn runs at least one step."""

    warm_up: float = 4.0
    """Seconds of the first turn of each contender, which is not counted."""

    only: str = ""
    """Contenders to measure, separated by commas: names, or substrings that are no whole name; empty means all."""

    to: str = "benchmarks/results"
    """Output folder, with one JSON file per benchmark."""

    instructions: Literal["native", "avx512", "avx2"] = "native"
    """Instruction set that the libraries may use. Nearly every computer supports `avx2`. Results for a restricted
    instruction set are saved in files of their own, with its name at the end."""

    at_once: int = 1
    """Number of contenders to set up in parallel: compilers need many cores, not the GPU. A contender that fails in
    parallel is set up and measured once more, alone, after the others. Measured turns always run one at a time."""

    patience: float | None = None
    """Time limit in seconds for the set-up of each contender and for each turn: a contender that takes longer is given
    up, and the others are measured."""


Report = Callable[[Row, str], None]
"""Receives the row of a contender and what it begins to do, such as `compiling, 12 s after its start`."""


class Worker:
    """Handle of one contender's process. `row` collects its results, or the reason why there are none."""

    def __init__(self, contender: Contender, instructions: str, report: Report = lambda row, doing: None) -> None:
        self.contender, self.report = contender, report
        self.row = Row(contender.name, contender.ours, contender.operations_per_unit, facts=dict(contender.facts))
        self.started, self.phase = time.monotonic(), ""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            env=environment({**LIMITS[instructions], **contender.environment}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
        )

    @property
    def seconds(self) -> float:
        """Seconds since the start of the set-up."""
        return time.monotonic() - self.started

    def begin(self, phase: str, note: str = "") -> None:
        """Note and report that a phase begins."""
        self.phase = phase
        self.row.phases[phase] = round(self.seconds, 1)
        self.report(self.row, f"{phase}{note}, {self.seconds:.0f} s after its start")

    def set_up(self, seconds: float, deadline: float = math.inf, patience: float = math.inf) -> None:
        """Build the step and run the warm-up turn, which is not counted. A contender that is not ready at `deadline`
        (time.monotonic), or `patience` seconds after its start, is killed."""
        self.started = time.monotonic()
        self.begin("starting")
        contender, latest = self.contender, min(deadline, self.started + patience)
        request = {"build": contender.build, "arguments": dict(contender.arguments), "ours": contender.ours}
        answer = self.ask(latest - time.monotonic(), **request, seconds=seconds)
        self.row.set_up_seconds = answer.get("set_up_seconds", 0.0)
        if self.row.status == "measured":
            last = answer["last"]
            self.begin("waiting", f" (warm-up: {1000 * last['seconds'] / last['steps']:.3g} ms a step)")

    def turn(self, seconds: float, patience: float = math.inf) -> None:
        """Run one measured turn."""
        if not self.row.rates:
            self.begin("measuring")
        answer = self.ask(patience, seconds=seconds)
        if self.row.status == "measured":
            self.row.add(answer["seconds"], answer["steps"], answer["units"])
            self.row.peak_memory = answer["peak_memory"]

    def ask(self, limit: float, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer. On `skipped`, `failed`, or no answer within `limit` seconds, set the
        row's status and end the process."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(max(0.0, min(limit, threading.TIMEOUT_MAX)), give_up)
        timer.daemon = True
        timer.start()
        try:
            answer = self.answer_to(request)
        finally:
            timer.cancel()
        for status in ("skipped", "failed"):
            if status in answer:
                cut = f"{CUT}{self.phase}, {self.seconds:.0f} s after its start"
                self.row.status = cut if late.is_set() else f"{status}: {answer[status]}"
                self.close()
        return answer

    def answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request, report the phases until it is answered, and return the answer. A process that dies without
        one has failed, with the last line of its standard error as the reason."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                answer: dict[str, Any] = json.loads(line)
                if "phase" not in answer:
                    return answer
                self.begin(answer["phase"])
        code, lines = self.end(), self.said().strip().splitlines()
        silent = f"exit code {code}" + (" (out of memory?)" if code == -9 else "")
        return {"failed": lines[-1][:200] if lines else silent}

    def said(self) -> str:
        """Return what the process has written to standard error, tracebacks included."""
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def hang_up(self) -> None:
        """Close the process's standard input, which ends it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the process died before reading the last request
            self.process.stdin.close()

    def end(self) -> int:
        """Wait for the end of the process and return its exit code. It is killed if it takes too long."""
        try:
            return self.process.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def close(self) -> None:
        """End the process, and print what it has written to standard error."""
        if not self.errors.closed:
            self.hang_up()
            self.end()
            print(end=self.said(), file=sys.stderr, flush=True)
            self.errors.close()


def alternate(
    contenders: Sequence[Contender],
    settings: MeasureSettings,
    deadline: float = math.inf,
    report: Report = lambda row, doing: None,
) -> Iterator[Row]:
    """Set up the contenders, then alternate turns A B C A B C … for `settings.rounds` rounds; yield a row whenever it
    has changed: after each turn, or when it is known why there is none.

    deadline (time.monotonic): contenders that are not ready in time for a round, and turns that do not fit, are left
    out. report: receives each phase of each contender, from several threads.
    """
    patience = math.inf if settings.patience is None else settings.patience
    a_turn = _ROOM * settings.seconds
    ready_by = deadline - a_turn * len(contenders)
    workers: list[Worker] = []
    with tqdm(total=len(contenders) * (1 + settings.rounds), unit="turn", disable=None, dynamic_ncols=True) as bar:

        def set_up(worker: Worker) -> None:
            bar.set_description(f"setting up {worker.row.name}")
            worker.set_up(settings.warm_up, ready_by, patience)
            bar.update()

        try:
            # Compilers need many cores, so set-ups may overlap; turns, which are timed, never do.
            workers += (Worker(contender, settings.instructions, report) for contender in contenders)
            with ThreadPoolExecutor(settings.at_once) as together:
                list(together.map(set_up, workers))
            again = [one for one in workers if settings.at_once > 1 and one.row.status.startswith("failed")]
            yield from (one.row for one in workers if one.row.status != "measured" and one not in again)
            for number in range(settings.rounds):
                for worker in workers:
                    bar.set_description(f"round {number + 1}: {worker.row.name}")
                    if worker.row.status == "measured" and time.monotonic() + a_turn < deadline:
                        worker.turn(settings.seconds, patience)
                        yield worker.row
                    bar.update()
        finally:
            for worker in workers:  # all first, so that they end together
                worker.hang_up()
            for worker in workers:
                worker.close()
    for worker in workers:
        if worker.row.status == "measured" and not worker.row.rates:
            worker.row.status = "not measured: no time left for a round"
            yield worker.row
    for worker in again:
        if time.monotonic() + a_turn < deadline:
            yield from alternate([worker.contender], replace(settings, at_once=1), deadline, report)
        else:
            yield worker.row


def measure(benchmark: Benchmark, settings: MeasureSettings, peak: dict[str, float] | None = None) -> Result:
    """Run a benchmark: measure its contenders in alternating turns, print the table and write the JSON file.

    `peak`: the machine's matrix peak from `matrix_peak`, if already measured.
    Raises UserError if the settings select no contender or no round.
    """
    chosen = [one for one in benchmark.contenders if is_wanted(one.name, settings.only, benchmark)]
    if not chosen:
        names = ", ".join(one.name for one in benchmark.contenders)
        raise UserError(f"only={settings.only}: matches no contender; choose from {names}")
    if settings.rounds < 1:
        raise UserError(f"rounds={settings.rounds}: must be at least 1")
    native = settings.instructions == "native"
    name = benchmark.name if native else f"{benchmark.name}_{settings.instructions}"
    today = date.today().isoformat()
    machine = describe_machine() | ({} if native else {"instructions": settings.instructions})
    peak = peak or matrix_peak(settings.instructions)
    # Without its instructions, bf16 is a hundred times slower than float32.
    emulated = [one for one in chosen if not native and ("bf16" in one.name or "bfloat16" in one.name)]
    chosen = [one for one in chosen if one not in emulated]
    changed = {row.name: row for row in alternate(chosen, settings)}
    rows = [changed[one.name] for one in chosen]
    rows += [Row(one.name, one.ours, status="skipped: bf16 is emulated here") for one in emulated]
    result = Result(
        benchmark=name,
        title=benchmark.title,
        unit=benchmark.unit,
        reference=benchmark.reference,
        rounds=settings.rounds,
        date=today,
        machine=machine,
        versions=versions(),
        peak=peak,
        comparisons=[asdict(one) for one in benchmark.comparisons],
        rows=rows,
    )
    folder = expanded(settings.to)
    folder.mkdir(parents=True, exist_ok=True)
    result.save(folder / f"{name}.json")
    print(full_table(result))
    print(f"\n{folder / name}.json")
    return result


def is_wanted(name: str, only: str, benchmark: Benchmark) -> bool:
    """Whether `only` selects the contender, by its whole name or by a substring that is no contender's whole name."""
    names = {one.name for one in benchmark.contenders}
    wanted = [text for text in only.split(",") if text]
    return not wanted or any(text == name or (text not in names and text in name) for text in wanted)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a subprocess that can import this project, with `more` variables."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": paths} | dict(more)


def matrix_peak(instructions: str) -> dict[str, float]:
    """Measure the matrix peak in a separate process, before anything else runs -> FLOP/s by number format."""
    command = [sys.executable, "-m", "benchmarks", "peak"]
    done = subprocess.run(command, env=environment(LIMITS[instructions]), check=True, capture_output=True, text=True)
    rates: dict[str, float] = json.loads(done.stdout)
    return rates
