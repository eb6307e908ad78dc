"""Run the stages of the GPU benchmark one after the other, each in its own process and within its time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import date
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.gpu.figures import NO_TIME, Figure, Inputs, append, read_figures, tables
from benchmarks.harness import ROOT, environment
from benchmarks.inputs import absolute
from configs.errors import UserError
from configs.program import expanded


@dataclass(frozen=True)
class Stage:
    """A function of a module in `benchmarks.gpu`, named like the stage, that yields figures."""

    title: str
    module: str
    seconds: float
    """Time after which the stage is stopped, unless it was asked for by `stages=`."""


STAGES = {
    "text": Stage("One minute of training on Shakespeare", "quality", 120),
    "gradients": Stage("Gradients of compiled code", "gradients", 60),
    "tests": Stage("Tests", "tests", 120),
    "training": Stage("Training steps", "training", 240),
    "attention": Stage("Attention, forward/backward", "attention", 60),
    "decoding": Stage("Decoding", "decoding", 150),
    "maps": Stage("Recording attention maps", "maps", 30),
    "sizes": Stage("Training steps: other sizes and batches", "training", 240),
    "translation": Stage("A translator", "quality", 400),
}
"""The stages, the most important first."""

NEEDED = {"nanogpt": ("model.py",), "text": (), "pairs": ("train.tsv", "valid.tsv", "test.tsv")}
"""Files that the folder in a setting must contain, checked before anything is measured."""


@dataclass
class GPUSettings(Inputs):
    """Settings of `gpu`."""

    out: str = ""
    """Output folder; empty means benchmarks/results/gpu-DATE, or a temporary folder in a dry run. Figures are added to
    those of an earlier call."""

    stages: str = ""
    """Stages to run, separated by commas, each with all the remaining time; empty means all, each within its time."""

    seconds: float = 530.0
    """Total time limit in seconds."""


@dataclass
class StageSettings(GPUSettings):
    """Settings of `gpu_stage`."""

    stage: str = ""
    """Name of the stage."""


def gpu(settings: GPUSettings) -> None:
    """Run the GPU benchmark and write its table; exit code 1 if something has failed."""
    deadline = time.monotonic() + settings.seconds
    chosen = choose(settings.stages)
    settings = check(settings)
    with ExitStack() as stack:
        if settings.dry_run and not settings.out:
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        else:
            out = Path(absolute(settings.out or str(ROOT / "benchmarks" / "results" / f"gpu-{date.today()}")))
        work = out / "work" if settings.dry_run else ROOT / ".cache" / "gpu"
        for folder in (out, work):
            folder.mkdir(parents=True, exist_ok=True)
        if settings.dry_run:
            text, pairs = write_samples(work)
            settings = replace(settings, text=str(text), pairs=str(pairs))
        settings = replace(settings, out=str(out))
        try:
            for name in chosen:
                remaining = deadline - time.monotonic()
                limit = remaining if settings.stages else STAGES[name].seconds
                run_stage(name, 300.0 if settings.dry_run else min(limit, remaining), settings, work)
        finally:
            figures = read_figures(out)
            page = tables(figures, {name: stage.title for name, stage in STAGES.items()})
            (out / "gpu.md").write_text(f"{page}\n", encoding="utf-8")
            print(page)
    if any(figure.failed for figure in figures if figure.stage in chosen):
        raise SystemExit(1)


def choose(stages: str) -> list[str]:
    """Return the chosen stages in the order of `STAGES`. Raises UserError for an unknown stage."""
    names = [name for name in stages.split(",") if name]
    if unknown := [name for name in names if name not in STAGES]:
        raise UserError(f"stages={stages}: unknown stage {unknown[0]}; choose from {', '.join(STAGES)}")
    return [name for name in STAGES if not names or name in names]


def check(settings: GPUSettings) -> GPUSettings:
    """Return the settings with absolute paths of the inputs. Raises UserError for missing files and without a GPU."""
    for key, names in NEEDED.items():
        value = getattr(settings, key)
        if value and not expanded(value).exists():
            raise UserError(f"{key}={value}: no such file or folder")
        for name in names:
            if value and not (expanded(value) / name).is_file():
                raise UserError(f"{key}={value}: does not contain {name}")
    if settings.text and not expanded(settings.text).is_file():
        raise UserError(f"text={settings.text}: not a file")
    if not settings.dry_run and not torch.cuda.is_available():
        raise UserError(f"torch {torch.__version__} finds no CUDA GPU; --dry-run checks everything on a CPU")
    nanogpt, text, pairs = (absolute(getattr(settings, key)) for key in NEEDED)
    return replace(settings, nanogpt=nanogpt, text=text, pairs=pairs)


def write_samples(work: Path) -> tuple[Path, Path]:
    """Write a short text and a few sentence pairs from the built-in corpus -> file of the text, folder of the pairs."""
    from data.primer import rows

    sentences = rows("sentences", 120, seed=1)
    pairs = work / "pairs"
    pairs.mkdir(exist_ok=True)
    for split, chosen in (("train", sentences[:100]), ("valid", sentences[100:110]), ("test", sentences[110:])):
        lines = "".join(f"{row['source']}\t{row['target']}\n" for row in chosen)
        (pairs / f"{split}.tsv").write_text(lines, encoding="utf-8")
    text = work / "text.txt"
    text.write_text("".join(f"{row['source']}\n" for row in sentences), encoding="utf-8")
    return text, pairs


def run_stage(name: str, seconds: float, settings: GPUSettings, work: Path) -> None:
    """Run a stage in its own process, which is killed after its time with all that it has started."""
    print(f"{time.strftime('%H:%M:%S')} {name}: at most {seconds:.0f} s", file=sys.stderr, flush=True)
    values = {key: getattr(settings, key) for key in ("out", *NEEDED) if getattr(settings, key)}
    values |= {"stage": name, "dry_run": str(settings.dry_run).lower()}
    command = [sys.executable, "-m", "benchmarks", "gpu_stage", *(f"{key}={value}" for key, value in values.items())]
    out, problem = Path(settings.out), ""
    with (out / "gpu.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            cwd=work,  # of the cache of prepared data
            env=environment({"TORCHINDUCTOR_CACHE_DIR": str(work / "compiled")}),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if code := process.wait(max(0.0, seconds)):
                lines = (out / "gpu.log").read_text(encoding="utf-8", errors="replace").splitlines()
                problem = f"failed: exit code {code}: {lines[-1][:160] if lines else ''}"
        except subprocess.TimeoutExpired:
            problem = NO_TIME
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if problem:
        append(out, Figure("the rest of the stage", status=problem, stage=name, machine=machine()))


def gpu_stage(settings: StageSettings) -> None:
    """Run one stage of the GPU benchmark; each figure is on disk as soon as it is measured."""
    measure = getattr(import_module(f"benchmarks.gpu.{STAGES[settings.stage].module}"), settings.stage)
    for figure in measure(settings):
        append(Path(settings.out), replace(figure, stage=settings.stage, machine=machine()))
        print(figure.what, figure.result, figure.beside, sep=" | ", flush=True)


def machine() -> str:
    """Return the name of the GPU and the version of torch."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "dry run"
    return f"{name}, torch {torch.__version__}"
