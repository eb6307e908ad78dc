"""Run the stages one after the other, each in its own process, for as long as there is time; go on where an earlier
call with the same output folder has stopped.

    bash benchmarks/gpu.sh [--dry-run] [out=FOLDER] [nanogpt=CHECKOUT] [text=FILE] [pairs=FOLDER]

The output folder contains `gpu.jsonl` (all figures and their raw numbers, one line each, written the moment they
exist), `gpu.md` (the table of these figures) and `gpu.log` (the output of all stages).
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO

from benchmarks.gpu.figures import INCOMPLETE, NO_TIME, STAGES, WHOLE, Figure, Results, table
from benchmarks.gpu.stage import LIFELINE, Inputs, adopt_orphans, children, end_children
from benchmarks.harness import ROOT, environment
from benchmarks.inputs import absolute
from benchmarks.machine import commit
from benchmarks.results import CUT
from configs.atomic_file import remove_partial
from configs.errors import UserError
from configs.program import expanded

BUDGETS = {
    "text": 100,  # data and start 15 s, 60 s of training including compilation, evaluation
    "gradients": 40,  # start 8 s, 4 models with cold compilations of 8 s
    "tests": 45,  # start and imports 15 s; what remains is for the end, or for another call
    "training": 160,  # start 6 s; 124M, 10.7M and a translator, 50 s each with a cold compilation; the other one later
    "machine": 15,  # start 6 s, 8 measurements of 0.5 s
    "attention": 45,  # start 6 s, 17 rows x 6 lengths x 0.2 s = 20 s, cuDNN plans
    "decoding": 60,  # start 6 s, 7 contenders 20 s, 3 rounds x 7 x 1 s x 1.4 = 29 s; the second size in the end
    "maps": 20,  # start 6 s, a cached compilation
    "kernels": 30,  # start 6 s, two cached compilations of 10 s
    "sizes": 200,  # start 6 s; five groups as in `training`
    "translation": 390,  # start 10 s, 5 minutes of training, data and test 75 s
}
"""Time in seconds that a stage gets at first; what it has left then gets twice as much, in the end all that remains."""

GRACE = 8.0
"""Seconds beyond its time after which a stage is killed."""

SHORTEST = 12.0
"""Minimum time for a stage to start, in seconds."""

DRY = 300.0
"""Seconds for each stage of a dry run, on a possibly slow and busy machine."""

END = 3.0
"""Seconds reserved for the table."""

NEEDED = {"nanogpt": ("model.py",), "text": (), "pairs": ("train.tsv", "valid.tsv", "test.tsv")}
"""Files that the folder in a setting must contain, checked before anything is measured."""


@dataclass
class GPUSettings(Inputs):
    """Settings of `gpu`."""

    out: str = ""
    """Output folder; empty means benchmarks/results/gpu-DATE, or a temporary folder in a dry run. A call with the
    folder of an earlier one measures what is missing or has failed there, or was measured by another commit; what has
    failed twice is not repeated."""

    work: str = ""
    """Folder for compiled code and prepared data, which later calls use again; empty means .cache/gpu, or OUT/work in a
    dry run."""

    stages: str = ""
    """Stages to run, separated by commas, each with all the remaining time; empty means all, within their budgets."""

    seconds: float = 530.0
    """Total time limit in seconds (default: just under nine minutes)."""


@dataclass(frozen=True)
class Call:
    """What all stages of a call have in common."""

    out: Path
    results: Results
    inputs: Inputs
    work: Path
    temporary: Path
    lock: int
    """Descriptor of the locked file, which every stage holds open."""

    log: IO[str]

    def is_complete(self, stage: str) -> bool:
        """Whether nothing is left to measure in a stage."""
        return self.results.is_complete(stage, self.inputs.given)


def gpu(settings: GPUSettings) -> None:
    """Run the GPU benchmarks, in calls of at most nine minutes that continue one another; exit code 1 if something has
    failed."""
    least = SHORTEST + GRACE + END
    if settings.seconds < least and not settings.dry_run:
        raise UserError(f"seconds={settings.seconds:g}: must be at least {least:g}")
    deadline = time.monotonic() + settings.seconds
    chosen = wanted(settings.stages)
    with ExitStack() as stack:
        call = prepared(settings, stack)
        try:
            for name, budget in plan(chosen, settings, call):
                remaining = deadline - END - GRACE - time.monotonic()
                seconds = DRY if settings.dry_run else min(budget, remaining)
                if seconds >= SHORTEST:
                    run(name, seconds, call)
                elif not any(one.what == WHOLE for one in call.results.figures(name)):
                    call.results.add(name, Figure(WHOLE, status=NO_TIME))
        finally:
            call.results.write_table()
            figures = [figure for figure in call.results.figures() if figure.stage in chosen]
            print(table(figures))
        failures = sum(figure.failed and figure.commit == call.results.commit for figure in figures)
        left = [name for name in chosen if not call.is_complete(name)]
        print(f"\n{failures} failed; left: {', '.join(left) or 'nothing'}" + (f"; {settings.out}" * bool(settings.out)))
    if failures:
        raise SystemExit(1)


def plan(chosen: list[str], settings: GPUSettings, call: Call) -> Iterator[tuple[str, float]]:
    """Yield the stages that are not complete, with their time: their budgets at first, then twice as much, so that a
    measurement that hangs costs the others no more than that, then all the remaining time."""
    for factor in (math.inf, math.inf) if settings.stages else (1, 2, math.inf):
        for name in chosen:
            if not call.is_complete(name):
                yield name, factor * BUDGETS[name]


def wanted(stages: str) -> list[str]:
    """Return the chosen stages in the order of `STAGES`. Raises UserError for an unknown stage."""
    names = [name for name in stages.split(",") if name]
    if foreign := [name for name in names if name not in STAGES]:
        raise UserError(f"stages={stages}: unknown stage {foreign[0]}; choose from {', '.join(STAGES)}")
    return [name for name in STAGES if not names or name in names]


def prepared(settings: GPUSettings, stack: ExitStack) -> Call:
    """Check the settings, create the folders and wait for an earlier call that is still ending. Raises UserError."""
    check(settings)
    machine = "dry run" if settings.dry_run else gpu_and_torch()
    if settings.dry_run and not settings.out:
        out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-dry-run-", ignore_cleanup_errors=True)))
    else:
        out = expanded(settings.out or str(ROOT / "benchmarks" / "results" / f"gpu-{date.today()}")).absolute()
        settings.out = str(out)
    work = expanded(settings.work).absolute() if settings.work else out / "work" if settings.dry_run else CACHE
    for folder in (out, work):
        folder.mkdir(parents=True, exist_ok=True)
    lock, temporary = stack.enter_context(locked(work / "lock"))
    results = Results(out, machine, commit(), settings.dry_run)
    if any(line.dry_run != settings.dry_run for line in results.lines()[0]):
        kind = "a real run" if settings.dry_run else "a dry run"
        raise UserError(f"{results.path}: contains the results of {kind}; choose another out=FOLDER")
    remove_partial(out)
    paths = {key: getattr(settings, key) for key in NEEDED}
    if settings.dry_run:
        paths |= {key: path for key, path in samples(work).items() if not paths[key]}
    inputs = Inputs(settings.dry_run, **{key: absolute(value) for key, value in paths.items()})
    log = stack.enter_context((out / "gpu.log").open("a", encoding="utf-8"))
    adopt_orphans()
    return Call(out, results, inputs, work, temporary, lock, log)


CACHE = ROOT / ".cache" / "gpu"
"""Default folder of compiled code and prepared data, ignored by git."""


def check(settings: GPUSettings) -> None:
    """Raises UserError for missing files."""
    for key, names in NEEDED.items():
        value = getattr(settings, key)
        if value and not expanded(value).exists():
            raise UserError(f"{key}={value}: no such file or folder")
        for name in names:
            if value and not (expanded(value) / name).is_file():
                raise UserError(f"{key}={value}: does not contain {name}")
    if settings.text and not expanded(settings.text).is_file():
        raise UserError(f"text={settings.text}: not a file")


def gpu_and_torch() -> str:
    """Return the name of the GPU and the version of torch. Raises UserError if torch finds no GPU."""
    command = [sys.executable, "-c", "from benchmarks.machine import gpu_and_torch; print(gpu_and_torch())"]
    done = subprocess.run(command, env=environment({}), capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"{reason.removeprefix('RuntimeError: ')}; --dry-run checks everything on a CPU")
    return done.stdout.strip().splitlines()[-1]


@contextmanager
def locked(path: Path, seconds: float = 30.0) -> Iterator[tuple[int, Path]]:
    """Lock a file against other calls, and create a folder for temporary files -> its descriptor, the folder.

    Stages inherit the descriptor, so that the lock outlives a killed call until its stage has ended, too. The file
    contains the path of the temporary folder: the next call removes what a killed one has left.
    """
    with path.open("a+", encoding="utf-8") as file:
        limit = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise UserError(f"{path.parent}: another call is running; wait until it has ended") from None
                time.sleep(0.2)
        file.seek(0)
        if left := file.read().strip():
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="gpu-benchmark-", ignore_cleanup_errors=True) as temporary:
            file.truncate(0)
            file.write(temporary)
            file.flush()
            yield file.fileno(), Path(temporary)
        file.truncate(0)


def samples(work: Path) -> dict[str, str]:
    """Write a short text and a few sentence pairs from the built-in corpus -> paths by setting."""
    from data.primer import rows

    sentences = rows("sentences", 120, seed=1)
    pairs = work / "pairs"
    pairs.mkdir(exist_ok=True)
    for split, chosen in (("train", sentences[:100]), ("valid", sentences[100:110]), ("test", sentences[110:])):
        lines = "".join(f"{row['source']}\t{row['target']}\n" for row in chosen)
        (pairs / f"{split}.tsv").write_text(lines, encoding="utf-8")
    text = work / "text.txt"
    text.write_text("".join(f"{row['source']}\n" for row in sentences), encoding="utf-8")
    return {"text": str(text), "pairs": str(pairs)}


def run(name: str, seconds: float, call: Call) -> None:
    """Run one stage in its own process, which is killed `GRACE` seconds after its time, and print what it stores.

    What it was doing when it was killed is in the results already; the reason why it has failed is added.
    """
    inputs = [f"{key}={value}" for key in NEEDED if (value := getattr(call.inputs, key))]
    settings = [f"out={call.out}", f"until={time.time() + seconds:.1f}", f"machine={call.results.machine}"]
    settings += [f"commit={call.results.commit}", f"dry_run={str(call.inputs.dry_run).lower()}", *inputs]
    command = [sys.executable, "-m", "benchmarks", f"gpu_{name}", *settings]
    call.log.write(f"\n===== {name}: {' '.join(command)}\n")
    call.log.flush()
    before, started = Path(call.log.name).stat().st_size, time.time()
    print(f"{time.strftime('%H:%M:%S')} {name}: at most {seconds:.0f} s", file=sys.stderr, flush=True)
    follow = follower(call.results)
    call.results.add(name, Figure.underway(WHOLE, "starting"))
    others, (here, there) = children(), os.pipe()
    variables = {
        LIFELINE: str(here),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(call.temporary),
        "TORCHINDUCTOR_CACHE_DIR": str(call.work / "compiled"),
    }
    process = subprocess.Popen(
        command,
        cwd=call.work,  # of the cache of prepared data
        env=environment(variables),
        stdin=subprocess.DEVNULL,
        stdout=call.log,
        stderr=subprocess.STDOUT,
        process_group=0,
        pass_fds=(here, call.lock),
    )
    os.close(here)
    code = None
    try:
        limit = time.monotonic() + seconds + GRACE
        while (code := process.poll()) is None and time.monotonic() < limit:
            follow()
            time.sleep(0.1)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        end_children(others)
        os.close(there)
    if code:
        fail(name, code, started, call, before)
    follow()


def fail(name: str, code: int, started: float, call: Call, before: int) -> None:
    """Store that the measurements of a stage that are underway have failed with its process; before: where its output
    begins in the log."""
    output = Path(call.log.name).read_bytes()[before:].decode("utf-8", "replace").strip()
    reason = f"failed: exit code {code}: {(output.splitlines() or [''])[-1][:160]}"
    mine = [one for one in call.results.figures(name) if one.at >= started and one.status.startswith(CUT)]
    names = [one.what for one in mine if one.what != WHOLE] or [WHOLE]
    for what in names:
        call.results.add(name, Figure(what, status=reason))
    if WHOLE not in names:
        call.results.add(name, Figure(WHOLE, status=INCOMPLETE))


def follower(results: Results) -> Callable[[], None]:
    """Return a function that prints the lines added since its last call, of tests only failures, and updates the
    table."""
    place = results.lines()[1]

    def follow() -> None:
        nonlocal place
        lines, place = results.lines(place)
        if lines:
            results.write_table()
        for line in lines:
            if ("file" in line.facts and not line.failed) or line.status == f"{CUT}starting":
                continue
            shown = " | ".join(cell for cell in line.cells if cell).replace(CUT, "")
            when = time.strftime("%H:%M:%S", time.localtime(line.at))
            print(f"{when} {line.stage} | {shown}", file=sys.stderr, flush=True)

    return follow
