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
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

from benchmarks.gpu.figures import Figure, Stage, largest, read_figures, table
from benchmarks.harness import ROOT
from configs.errors import UserError
from configs.program import expanded
from configs.whole_file import write_whole


@dataclass(frozen=True)
class Planned:
    """A stage with its time budget."""

    name: str
    """Name of the stage; its command is `python -m benchmarks gpu_<name>`."""

    seconds: float
    """Time budget in seconds; the stage skips measurements that do not fit."""

    estimate: str
    """Justification of the budget."""


PLAN = (
    Planned("machine", 15, "start 6 s, 8 measurements of 0.5 s"),
    Planned("tests", 60, "start and imports 15 s, a few small compilations"),
    Planned("attention", 45, "start 6 s, 17 rows x 6 lengths x 0.2 s = 20 s, cuDNN plans"),
    Planned("training", 190, "16 contenders compile 4 at a time: 120 s at most; 3 rounds x 16 x 1 s x 1.4 = 67 s"),
    Planned("text", 95, "data and start 15 s, 60 s of training including compilation, evaluation"),
    Planned("kernels", 25, "start 6 s, two cached compilations: 10 s each"),
    Planned("decoding", 40, "13 contenders, 4 at a time: 20 s; 3 rounds x 13 x 1 s"),
    Planned("maps", 20, "start 6 s, a cached compilation"),
    Planned("translation", 375, "5 minutes of training, test 40 s: the remaining time, or all with stages=translation"),
)
"""Stages in the order in which they run. The budgets add up to more than nine minutes: the last stage gets the
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
class GPUSettings:
    """Settings of `gpu`."""

    out: str = ""
    """Output folder; empty means benchmarks/results/gpu-DATE, or a temporary folder in a dry run."""

    dry_run: bool = False
    """Run every stage with tiny sizes on this machine, to find errors; measures nothing and keeps no files."""

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's rows are skipped."""

    text: str = ""
    """A text file (tinyshakespeare); if empty, the stage `text` is skipped."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; if empty, the stage `translation` is skipped."""

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
        out = expanded(settings.out or default_folder()).absolute() if kept else work / "out"
        results = Results(out, settings.dry_run)
        measured: list[Stage] = []
        try:
            with (out / "gpu.log").open("a", encoding="utf-8") as log:
                for planned in chosen:
                    remaining = deadline - END - GRACE - time.monotonic()
                    budget = remaining if settings.stages else planned.seconds
                    seconds = DRY if settings.dry_run else min(budget, remaining)
                    command = [*given, f"peak={results.peak}"]
                    measured.append(run(planned, seconds, command, work, log, settings.dry_run))
                    results.keep(measured[-1])
        except StageInterrupted as interrupted:
            measured.append(interrupted.stage)
            results.keep(interrupted.stage)
            raise
        finally:
            print(table(measured))
        failures = [figure for stage in measured for figure in stage.failures]
        took = sum(stage.seconds for stage in measured)
        print(f"\n{len(failures)} failed; {took:.0f} s" + (f"; {out}" if kept else ""))
    if failures:
        raise SystemExit(1)


class StageInterrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during a stage; `stage` contains the figures measured before the signal."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage


class Results:
    """`gpu.json` and `gpu.md` of a folder; a stage that is measured again replaces its earlier results."""

    def __init__(self, folder: Path, dry_run: bool) -> None:
        self.folder, self.dry_run = folder, dry_run
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "gpu.json"
        self.stages = load(path, dry_run) if path.exists() else []

    @property
    def peak(self) -> float:
        """Rate of the fastest matrix product in FLOP/s; 0 if none was measured."""
        return largest(self.stages, "flops")

    def keep(self, stage: Stage) -> None:
        """Add a stage and write both files. A stage without time to run keeps the figures of an earlier call."""
        nothing = not stage.measured and not stage.failures
        if nothing and any(one.name == stage.name and one.measured for one in self.stages):
            return
        order = [planned.name for planned in PLAN]
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


def wanted(stages: str) -> list[Planned]:
    """Return the chosen stages in the order of `PLAN`. Raises UserError for an unknown stage."""
    names = [name for name in stages.split(",") if name]
    known = [planned.name for planned in PLAN]
    if foreign := [name for name in names if name not in known]:
        raise UserError(f"stages={stages}: unknown stage {foreign[0]}; choose from {', '.join(known)}")
    return [planned for planned in PLAN if not names or planned.name in names]


def default_folder() -> str:
    """Return the default output folder, named after the date."""
    return str(ROOT / "benchmarks" / "results" / f"gpu-{date.today().isoformat()}")


def inputs(settings: GPUSettings, work: Path) -> list[str]:
    """Return the settings of every stage. A dry run without text or pairs uses samples. Raises UserError for missing
    files."""
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
    for number, split in enumerate(("train", "valid", "test")):
        chosen = sentences[:100] if split == "train" else sentences[100 + 10 * (number - 1) : 110 + 10 * (number - 1)]
        lines = "".join(f"{row['source']}\t{row['target']}\n" for row in chosen)
        (pairs / f"{split}.tsv").write_text(lines, encoding="utf-8")
    text = work / "text.txt"
    text.write_text("".join(f"{row['source']}\n" for row in sentences), encoding="utf-8")
    return {"text": str(text), "pairs": str(pairs)}


def run(planned: Planned, seconds: float, given: list[str], work: Path, log: IO[str], dry_run: bool) -> Stage:
    """Run one stage in its own process, which is killed `GRACE` seconds after its time limit. A failure becomes a
    figure. Raises StageInterrupted after Ctrl-C or SIGTERM."""
    if seconds < SHORTEST:
        return Stage(planned.name, [Figure(planned.name, status="not measured: no time left")])
    figures = work / f"{planned.name}.json"
    program = [sys.executable, "-m", "benchmarks", f"gpu_{planned.name}"]
    command = [*program, f"to={figures}", f"seconds={seconds:.1f}", *given]
    log.write(f"\n===== {planned.name}: {' '.join(command)}\n")
    log.flush()
    print(f"{planned.name}: at most {seconds:.0f} s", file=sys.stderr, flush=True)
    started = time.monotonic()
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, cwd=work, env=environment(work, dry_run), start_new_session=True, **streams)
    problem, interrupted = "", False
    try:
        code = process.wait(seconds + GRACE)
        if code:
            problem = f"failed: exit code {code}: {last_line(Path(log.name))}"
    except subprocess.TimeoutExpired:
        problem = f"failed: did not finish within {seconds + GRACE:.0f} s"
    except KeyboardInterrupt:
        problem, interrupted = "not measured: interrupted", True
    finally:  # kills the whole process group, including contenders and compilers
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = read_figures(figures)
    if problem or not found:
        found.append(Figure(planned.name, status=problem or "failed: no figures written"))
    stage = Stage(planned.name, found, time.monotonic() - started)
    if interrupted:
        raise StageInterrupted(stage)
    return stage


def environment(work: Path, dry_run: bool) -> dict[str, str]:
    """Return the environment of a stage. Temporary files are removed with the folder; compiled code is kept for later
    calls."""
    temporary, code = work / "tmp", Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    temporary.mkdir(exist_ok=True)
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(temporary),
        "TORCHINDUCTOR_CACHE_DIR": str(temporary if dry_run else os.environ.get("TORCHINDUCTOR_CACHE_DIR", code)),
    }


def last_line(log: Path) -> str:
    """Return the last line of a stage's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:160] if lines else ""
