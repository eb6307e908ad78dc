"""Measure contenders in alternating turns, each in its own process, so that machine noise affects all of them alike."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from benchmarks.contender import Benchmark, Contender
from benchmarks.machine import describe_machine, versions
from benchmarks.results import Result, Row
from benchmarks.table import full_table
from configs.errors import UserError
from configs.program import expanded
from data.cpu_cores import cores

ROOT = Path(__file__).resolve().parent.parent

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
    """Number of contenders to set up in parallel: compilers need many cores, not the GPU. Measured turns always run one
    at a time."""

    patience: float | None = None
    """Time limit in seconds for the set-up of each contender and for each turn: a contender that takes longer is given
    up, and the others are measured."""


class Worker:
    """Handle of one contender's process. `row` collects its results, or the reason why there are none."""

    def __init__(self, contender: Contender, settings: MeasureSettings) -> None:
        self.contender, self.patience = contender, settings.patience
        self.row = Row(contender.name, contender.ours, contender.operations_per_unit)
        threads = {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, cores() // settings.at_once))}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            env=environment({**LIMITS[settings.instructions], **(threads if settings.at_once > 1 else {})}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
        )

    def set_up(self, seconds: float) -> None:
        """Build the step and run the warm-up turn, which is not counted."""
        contender = self.contender
        self.ask(build=contender.build, arguments=dict(contender.arguments), ours=contender.ours, seconds=seconds)

    def turn(self, seconds: float) -> None:
        """Run one measured turn."""
        answer = self.ask(seconds=seconds)
        if self.row.status == "measured":
            self.row.add(answer["seconds"], answer["steps"], answer["units"])
            self.row.peak_memory = answer["peak_memory"]

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer. On `skipped`, `failed`, or no answer in time, set the row's status and
        end the process."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(threading.TIMEOUT_MAX if self.patience is None else self.patience, give_up)
        timer.daemon = True
        timer.start()
        try:
            answer = self.answer_to(request)
        finally:
            timer.cancel()
        for status in ("skipped", "failed"):
            if status in answer:
                reason = f"not measured: no answer within {self.patience} s"
                self.row.status = reason if late.is_set() else f"{status}: {answer[status]}"
                self.close()
        return answer

    def answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer. A process that dies without one has failed, with the last line of its
        standard error as the reason."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            if line := self.process.stdout.readline():
                answer: dict[str, Any] = json.loads(line)
                return answer
        code, lines = self.end(), self.standard_error().strip().splitlines()
        silent = f"exit code {code}" + (" (out of memory?)" if code == -9 else "")
        return {"failed": lines[-1][:200] if lines else silent}

    def standard_error(self) -> str:
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
            print(end=self.standard_error(), file=sys.stderr, flush=True)
            self.errors.close()


def alternate(contenders: Sequence[Contender], settings: MeasureSettings) -> Iterator[Row]:
    """Set up the contenders, then alternate turns A B C A B C … for `settings.rounds` rounds; yield a row whenever it
    has changed: after each turn, or when it is known why there is none."""
    workers: list[Worker] = []
    with tqdm(total=len(contenders) * (1 + settings.rounds), unit="turn", disable=None, dynamic_ncols=True) as bar:

        def set_up(worker: Worker) -> None:
            bar.set_description(f"setting up {worker.row.name}")
            worker.set_up(settings.warm_up)
            bar.update()

        try:
            # Compilers need many cores, so set-ups may overlap; turns, which are timed, never do.
            workers += (Worker(contender, settings) for contender in contenders)
            with ThreadPoolExecutor(settings.at_once) as pool:
                list(pool.map(set_up, workers))
            yield from (worker.row for worker in workers if worker.row.status != "measured")
            for number in range(settings.rounds):
                for worker in workers:
                    bar.set_description(f"round {number + 1}: {worker.row.name}")
                    if worker.row.status == "measured":
                        worker.turn(settings.seconds)
                        yield worker.row
                    bar.update()
        finally:
            for worker in workers:  # all first, so that they end together
                worker.hang_up()
            for worker in workers:
                worker.close()


def measure(benchmark: Benchmark, settings: MeasureSettings, peak: dict[str, float] | None = None) -> Result:
    """Run a benchmark: measure its contenders in alternating turns, print the table and write the JSON file.

    `peak`: the machine's matrix peak from `matrix_peak`, if already measured.
    Raises UserError if the settings select no contender or no round.
    """
    chosen = [contender for contender in benchmark.contenders if is_wanted(contender.name, settings.only, benchmark)]
    if not chosen:
        names = ", ".join(contender.name for contender in benchmark.contenders)
        raise UserError(f"only={settings.only}: matches no contender; choose from {names}")
    if settings.rounds < 1:
        raise UserError(f"rounds={settings.rounds}: must be at least 1")
    native = settings.instructions == "native"
    name = benchmark.name if native else f"{benchmark.name}_{settings.instructions}"
    today = date.today().isoformat()
    machine = describe_machine() | ({} if native else {"instructions": settings.instructions})
    peak = peak or matrix_peak(settings.instructions)
    # Without its instructions, bf16 is a hundred times slower than float32.
    emulated = [] if native else [peer for peer in chosen if re.search("bf(loat)?16", peer.name)]
    chosen = [contender for contender in chosen if contender not in emulated]
    changed = {row.name: row for row in alternate(chosen, settings)}
    rows = [changed[contender.name] for contender in chosen]
    rows += [Row(contender.name, contender.ours, status="skipped: bf16 is emulated here") for contender in emulated]
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
        comparisons=[asdict(contender) for contender in benchmark.comparisons],
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
    names = {contender.name for contender in benchmark.contenders}
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
