"""All stages within a given time, each in a process of its own, and one table at the end.

    bash benchmarks/gpu.sh [--dry-run] [out=FOLDER] [nanogpt=CHECKOUT] [text=FILE] [pairs=FOLDER]

The output folder holds three files, written anew after every stage so that a run that is stopped leaves what it had:
`gpu.json` (the figures with the raw numbers behind them), `gpu.md` (the table) and `gpu.log` (the output of all
stages). A second call into the same folder, with `stages=…`, replaces what it measures and leaves the rest.
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
    """A stage and the most that it may take."""

    name: str
    """The command is `python -m benchmarks gpu_<name>`."""

    seconds: float
    """Its budget: the stage reads the clock and leaves out what does not fit."""

    estimate: str
    """The reason for the budget."""


PLAN = (
    Planned("machine", 15, "start 6 s, 8 measurements of 0.5 s"),
    Planned("tests", 60, "start and imports 15 s, a few small compilations"),
    Planned("attention", 45, "start 6 s, 17 lines x 6 lengths x 0.2 s = 20 s, plans of cuDNN"),
    Planned("training", 190, "16 contenders compile 4 at a time: 120 s at most; 3 rounds x 16 x 1 s x 1.4 = 67 s"),
    Planned("text", 95, "data and start 15 s, 60 s of training with its compilation, evaluation"),
    Planned("kernels", 25, "start 6 s, two compilations that the cache has: 10 s each"),
    Planned("decoding", 40, "13 contenders, 4 at a time: 20 s; 3 rounds x 13 x 1 s"),
    Planned("maps", 20, "start 6 s, a compilation that the cache has"),
    Planned("translation", 375, "5 minutes of training, a test of 40 s: the rest, or all with stages=translation"),
)
"""In this order. All budgets together exceed nine minutes: the last stage gets the time that is left."""

GRACE = 12.0
"""Seconds over its time after which a stage is stopped."""

SHORTEST = 6.0
"""Seconds below which no stage begins."""

DRY = 300.0
"""Seconds for a stage of a dry run, whose machine may be slow and busy."""

END = 3.0
"""Seconds kept for the table."""


NEEDED = {"nanogpt": ("model.py",), "text": (), "pairs": ("train.tsv", "valid.tsv", "test.tsv")}
"""Files that the folder of a setting must hold, checked before anything is measured."""


@dataclass
class GPUSettings:
    """Settings of `gpu`."""

    out: str = ""
    """Folder of the results; empty: benchmarks/results/gpu-DATE, in a dry run a temporary one."""

    dry_run: bool = False
    """Run every stage with tiny sizes on this machine, to find mistakes; measures nothing and leaves nothing."""

    nanogpt: str = ""
    """A checkout of nanoGPT; without it its rows are skipped."""

    text: str = ""
    """A text file, tinyshakespeare; without it `text` is skipped."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; without it `translation` is skipped."""

    stages: str = ""
    """Only these, separated by commas, each with all the time that is left; empty means all, each within its budget."""

    seconds: float = 530.0
    """For everything: under nine minutes."""


def gpu(settings: GPUSettings) -> None:
    """Everything there is to measure on a GPU, in under nine minutes; exit code 1 when a stage failed."""
    least = SHORTEST + GRACE + END
    if settings.seconds < least and not settings.dry_run:
        raise UserError(f"seconds={settings.seconds:g}: nothing can be measured in less than {least:g}")
    deadline = time.monotonic() + settings.seconds
    chosen = wanted(settings.stages)
    # Prepared data, runs and files of the profiler go to a temporary folder.
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
    """Ctrl-C or SIGTERM during a stage; `stage` holds the figures until then."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage


class Results:
    """`gpu.json` and `gpu.md` of a folder; a stage that is measured again takes the place of what was there."""

    def __init__(self, folder: Path, dry_run: bool) -> None:
        self.folder, self.dry_run = folder, dry_run
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "gpu.json"
        self.stages = load(path, dry_run) if path.exists() else []

    @property
    def peak(self) -> float:
        """The fastest matrix product in FLOP/s, 0 before any was measured."""
        return largest(self.stages, "flops")

    def keep(self, stage: Stage) -> None:
        """Add a stage and write both files. A stage that had no time leaves the figures of an earlier call."""
        nothing = not stage.measured and not stage.failures
        if nothing and any(one.name == stage.name and one.measured for one in self.stages):
            return
        order = [planned.name for planned in PLAN]
        others = [one for one in self.stages if one.name != stage.name]
        self.stages = sorted([*others, stage], key=lambda one: order.index(one.name))
        stages = [asdict(one) for one in self.stages]
        values = {"date": date.today().isoformat(), "dry_run": self.dry_run, "stages": stages}
        text = json.dumps(values, indent=1, ensure_ascii=False)
        write_whole(self.folder / "gpu.json", f"{text}\n".encode())  # the next call goes on from it
        (self.folder / "gpu.md").write_text(table(self.stages) + "\n", encoding="utf-8")


def load(path: Path, dry_run: bool) -> list[Stage]:
    """The stages of a `gpu.json`. Raises UserError, also where a dry run would mix with a real one."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        stages = [Stage.from_values(stage) for stage in values["stages"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the results of an earlier call; choose another out=FOLDER") from error
    if values["dry_run"] != dry_run:
        kind = "a dry run" if values["dry_run"] else "a real run"
        raise UserError(f"{path}: holds the results of {kind}; choose another out=FOLDER")
    return stages


def wanted(stages: str) -> list[Planned]:
    """The chosen stages in their order. Raises UserError."""
    names = [name for name in stages.split(",") if name]
    known = [planned.name for planned in PLAN]
    if foreign := [name for name in names if name not in known]:
        raise UserError(f"stages={stages}: there is no {foreign[0]}; there are {', '.join(known)}")
    return [planned for planned in PLAN if not names or planned.name in names]


def default_folder() -> str:
    """By date, beside the other results."""
    return str(ROOT / "benchmarks" / "results" / f"gpu-{date.today().isoformat()}")


def inputs(settings: GPUSettings, work: Path) -> list[str]:
    """The settings of every stage. A dry run without text and pairs writes samples. Raises UserError."""
    paths = {"nanogpt": settings.nanogpt, "text": settings.text, "pairs": settings.pairs}
    for key, value in paths.items():
        if value and not expanded(value).exists():
            raise UserError(f"{key}={value}: no such file or folder")
        for name in NEEDED[key]:
            if value and not (expanded(value) / name).is_file():
                raise UserError(f"{key}={value}: has no {name}")
    if settings.text and not expanded(settings.text).is_file():
        raise UserError(f"text={settings.text}: not a file")
    if settings.dry_run:
        paths |= {key: path for key, path in samples(work).items() if not paths[key]}
    given = [f"{key}={expanded(value).absolute()}" for key, value in paths.items() if value]
    return [*given, f"dry_run={str(settings.dry_run).lower()}"]


def samples(work: Path) -> dict[str, str]:
    """A little text and a few pairs of the built-in corpus."""
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
    """One stage in its own process, stopped `GRACE` seconds after its time. A failure becomes a figure. Raises
    StageInterrupted."""
    if seconds < SHORTEST:
        return Stage(planned.name, [Figure(planned.name, status="cut: no time left")])
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
            problem = f"failed: code {code}: {last_line(Path(log.name))}"
    except subprocess.TimeoutExpired:
        problem = f"failed: had not ended after {seconds + GRACE:.0f} s"
    except KeyboardInterrupt:
        problem, interrupted = "cut: interrupted", True
    finally:  # with its contenders and compilers
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = read_figures(figures)
    if problem or not found:
        found.append(Figure(planned.name, status=problem or "failed: it said nothing"))
    stage = Stage(planned.name, found, time.monotonic() - started)
    if interrupted:
        raise StageInterrupted(stage)
    return stage


def environment(work: Path, dry_run: bool) -> dict[str, str]:
    """Environment of a stage: temporary files are removed with the folder, compiled code stays for the next call."""
    temporary, code = work / "tmp", Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    temporary.mkdir(exist_ok=True)
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(temporary),
        "TORCHINDUCTOR_CACHE_DIR": str(temporary if dry_run else os.environ.get("TORCHINDUCTOR_CACHE_DIR", code)),
    }


def last_line(log: Path) -> str:
    """The last line of a stage's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:160] if lines else ""
