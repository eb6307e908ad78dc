"""Run all stages within a time limit, each in its own process, and print one table at the end.

    bash benchmarks/gpu.sh [--dry-run] [out=FOLDER] [nanogpt=CHECKOUT] [text=FILE] [pairs=FOLDER]

The output folder contains `gpu.json` (the figures and their raw numbers), `gpu.md` (the table) and `gpu.log` (the
output of all stages). They are updated after every stage, so that an interrupted run keeps its results. A second call
with the same folder and `stages=…` replaces the results of these stages and keeps the others.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

from benchmarks.gpu.figures import Figure, Inputs, Stage, largest, read_figures, table
from benchmarks.harness import ROOT, environment
from configs.errors import UserError
from configs.program import expanded
from configs.whole_file import write_whole

PLAN = {
    "machine": 15,  # start 6 s, 8 measurements of 0.5 s
    "tests": 60,  # start and imports 15 s, a few small compilations
    "attention": 45,  # start 6 s, 17 rows x 6 lengths x 0.2 s = 20 s, cuDNN plans
    "training": 190,  # 16 contenders compile 4 at a time: 120 s at most; 3 rounds x 16 x 1 s x 1.4 = 67 s
    "text": 95,  # data and start 15 s, 60 s of training including compilation, evaluation
    "kernels": 25,  # start 6 s, two cached compilations: 10 s each
    "decoding": 40,  # 13 contenders, 4 at a time: 20 s; 3 rounds x 13 x 1 s
    "maps": 20,  # start 6 s, a cached compilation
    "translation": 375,  # 5 minutes of training, test 40 s: the remaining time, or all with stages=translation
}
"""Time budget in seconds of each stage, in the order in which they run; a stage skips measurements that do not fit. Its
command is `python -m benchmarks gpu_NAME`. The budgets add up to more than nine minutes: the last stage gets the
remaining time."""

GRACE = 12.0
"""Seconds beyond the budget after which a stage is killed."""

SHORTEST = 6.0
"""Minimum remaining time for a stage to start, in seconds."""

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
    """Output folder; empty means benchmarks/results/gpu-DATE, or a temporary folder in a dry run."""

    stages: str = ""
    """Stages to run, separated by commas, each with all the remaining time; empty means all, within their budgets."""

    seconds: float = 530.0
    """Total time limit in seconds (default: just under nine minutes)."""


def gpu(settings: GPUSettings) -> None:
    """Run all GPU benchmarks in under nine minutes; exit code 1 if a stage failed."""
    least = SHORTEST + GRACE + END
    if settings.seconds < least and not settings.dry_run:
        raise UserError(f"seconds={settings.seconds:g}: must be at least {least:g}")
    deadline = time.monotonic() + settings.seconds
    chosen = wanted(settings.stages)
    # Prepared data, runs and profiler files are written to a temporary folder.
    with tempfile.TemporaryDirectory(prefix="gpu-benchmark-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        given = inputs(settings, work)
        kept = not settings.dry_run or bool(settings.out)
        default = ROOT / "benchmarks" / "results" / f"gpu-{date.today().isoformat()}"
        out = expanded(settings.out or str(default)).absolute() if kept else work / "out"
        results = Results(out, settings.dry_run)
        measured: list[Stage] = []

        def keep(stage: Stage) -> None:
            measured.append(stage)
            results.keep(stage)

        try:
            with (out / "gpu.log").open("a", encoding="utf-8") as log:
                for name in chosen:
                    remaining = deadline - END - GRACE - time.monotonic()
                    budget = remaining if settings.stages else PLAN[name]
                    seconds = DRY if settings.dry_run else min(budget, remaining)
                    peak = largest(results.stages, "flops")  # of the fastest matrix product; 0 if none was measured
                    run(name, seconds, [*given, f"peak={peak}"], work, log, settings.dry_run, keep)
        finally:
            print(table(measured))
        failures = [figure for stage in measured for figure in stage.failures]
        took = sum(stage.seconds for stage in measured)
        print(f"\n{len(failures)} failed; {took:.0f} s" + (f"; {out}" if kept else ""))
    if failures:
        raise SystemExit(1)


class Results:
    """`gpu.json` and `gpu.md` of a folder; a stage that is measured again replaces its earlier results."""

    def __init__(self, folder: Path, dry_run: bool) -> None:
        self.folder, self.dry_run = folder, dry_run
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "gpu.json"
        self.stages = load(path, dry_run) if path.exists() else []

    def keep(self, stage: Stage) -> None:
        """Add a stage and write both files. A stage without time to run keeps the figures of an earlier call."""
        nothing = not stage.measured and not stage.failures
        if nothing and any(one.name == stage.name and one.measured for one in self.stages):
            return
        order = list(PLAN)
        others = [one for one in self.stages if one.name != stage.name]
        self.stages = sorted([*others, stage], key=lambda one: order.index(one.name))
        stages = [asdict(one) for one in self.stages]
        values = {"date": date.today().isoformat(), "dry_run": self.dry_run, "stages": stages}
        text = json.dumps(values, indent=1, ensure_ascii=False)
        write_whole(self.folder / "gpu.json", f"{text}\n".encode())  # read again by the next call
        (self.folder / "gpu.md").write_text(table(self.stages) + "\n", encoding="utf-8")


def load(path: Path, dry_run: bool) -> list[Stage]:
    """Load the stages of a `gpu.json`. Raises UserError if it is invalid or would mix a dry run with a real run."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        stages = [Stage.from_values(stage) for stage in values["stages"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a valid results file; choose another out=FOLDER") from error
    if values["dry_run"] != dry_run:
        kind = "a dry run" if values["dry_run"] else "a real run"
        raise UserError(f"{path}: contains the results of {kind}; choose another out=FOLDER")
    return stages


def wanted(stages: str) -> list[str]:
    """Return the chosen stages in the order of `PLAN`. Raises UserError for an unknown stage."""
    names = [name for name in stages.split(",") if name]
    if foreign := [name for name in names if name not in PLAN]:
        raise UserError(f"stages={stages}: unknown stage {foreign[0]}; choose from {', '.join(PLAN)}")
    return [name for name in PLAN if not names or name in names]


def inputs(settings: GPUSettings, work: Path) -> list[str]:
    """Return the settings of every stage, in a dry run with sample data. Raises UserError for missing files."""
    paths = {"nanogpt": settings.nanogpt, "text": settings.text, "pairs": settings.pairs}
    for key, value in paths.items():
        if value and not expanded(value).exists():
            raise UserError(f"{key}={value}: no such file or folder")
        for name in NEEDED[key]:
            if value and not (expanded(value) / name).is_file():
                raise UserError(f"{key}={value}: does not contain {name}")
    if settings.text and not expanded(settings.text).is_file():
        raise UserError(f"text={settings.text}: not a file")
    if settings.dry_run:
        paths |= {key: path for key, path in samples(work).items() if not paths[key]}
    given = [f"{key}={expanded(value).absolute()}" for key, value in paths.items() if value]
    return [*given, f"dry_run={str(settings.dry_run).lower()}"]


def samples(work: Path) -> dict[str, str]:
    """Write a short text and a few sentence pairs from the built-in corpus -> paths by setting."""
    from data.primer import rows

    sentences = rows("sentences", 120, seed=1)
    pairs = work / "pairs"
    pairs.mkdir()
    for split, chosen in (("train", sentences[:100]), ("valid", sentences[100:110]), ("test", sentences[110:])):
        lines = "".join(f"{row['source']}\t{row['target']}\n" for row in chosen)
        (pairs / f"{split}.tsv").write_text(lines, encoding="utf-8")
    text = work / "text.txt"
    text.write_text("".join(f"{row['source']}\n" for row in sentences), encoding="utf-8")
    return {"text": str(text), "pairs": str(pairs)}


def run(
    name: str, seconds: float, given: list[str], work: Path, log: IO[str], dry_run: bool, keep: Callable[[Stage], None]
) -> None:
    """Run one stage in its own process, which is killed `GRACE` seconds after its time limit, and pass the stage to
    `keep`, also after Ctrl-C or SIGTERM. A failure becomes a figure."""
    if seconds < SHORTEST:
        return keep(Stage(name, [Figure(name, status="not measured: no time left")]))
    figures = work / f"{name}.json"
    program = [sys.executable, "-m", "benchmarks", f"gpu_{name}"]
    command = [*program, f"to={figures}", f"seconds={seconds:.1f}", *given]
    log.write(f"\n===== {name}: {' '.join(command)}\n")
    log.flush()
    print(f"{name}: at most {seconds:.0f} s", file=sys.stderr, flush=True)
    started = time.monotonic()
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(
        command, cwd=work, env=environment(variables(work, dry_run)), start_new_session=True, **streams
    )
    problem = ""
    try:
        code = process.wait(seconds + GRACE)
        if code:
            output = Path(log.name).read_text(encoding="utf-8", errors="replace").strip()
            problem = f"failed: exit code {code}: {output.splitlines()[-1][:160]}"
    except subprocess.TimeoutExpired:
        problem = f"failed: did not finish within {seconds + GRACE:.0f} s"
    except KeyboardInterrupt:
        problem = "not measured: interrupted"
        raise
    finally:  # kills the whole process group, including contenders and compilers
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        found = read_figures(figures)
        if problem or not found:
            found.append(Figure(name, status=problem or "failed: no figures written"))
        keep(Stage(name, found, time.monotonic() - started))


def variables(work: Path, dry_run: bool) -> dict[str, str]:
    """Return environment variables of a stage. Temporary files are removed with the folder; compiled code is kept."""
    temporary, code = work / "tmp", Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    temporary.mkdir(exist_ok=True)
    return {
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(temporary),
        "TORCHINDUCTOR_CACHE_DIR": str(temporary if dry_run else os.environ.get("TORCHINDUCTOR_CACHE_DIR", code)),
    }
