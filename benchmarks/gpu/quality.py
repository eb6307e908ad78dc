"""Measure the quality after a given time of training with `python train.py`, as a user runs it: does it learn?"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import Figure
from benchmarks.gpu.stage import Measurement, Report, StageSettings, stage
from benchmarks.harness import ROOT
from benchmarks.inputs import absolute

FALL = 0.05
"""Fraction by which the training loss must at least fall from the first to the last line of the log."""

TINY = (
    "model.layers=1 model.heads=2 model.width=32 model.context=32 trainer.batch_size=4 trainer.steps=40"
    " trainer.log_every=10 trainer.evaluate_every=20 trainer.evaluate_sentences=2 trainer.beam_size=2"
    " trainer.samples=0 attention.examples=1 attention.image=false data.batch_tokens=256 optim.lr=0.01"
    " schedule.warmup=2"
).split()
TINY_PAIRS = ["tokenizer.vocab_size=300", "tokenizer.byte_fallback=false", "data.max_rows=60"]


@dataclass(frozen=True)
class Recipe:
    """An experiment of `configs/experiment/` that is trained for whole minutes."""

    experiment: str
    key: str
    """The setting with its data: `text` or `pairs`."""

    minutes: tuple[int, ...]
    """Lengths of training, the most wanted first; a later one is taken if there is no time for those before it."""

    around: float
    """Seconds of a run outside training: start, data, final test."""

    tiny: tuple[str, ...]
    """Overrides for a dry run."""

    def name(self, minutes: int) -> str:
        """Return the name of the figure for a length of training."""
        return f"{self.experiment}, {minutes} minute{'s' * (minutes > 1)} of training"

    def seconds(self, minutes: int) -> float:
        """Return the time of a run."""
        return 60 * minutes + self.around


TEXT = Recipe("shakespeare_gpu", "text", (1,), 25.0, tuple(TINY))
TRANSLATION = Recipe("tatoeba", "pairs", (5, 4, 3, 2), 75.0, (*TINY, *TINY_PAIRS))


@stage
def text(settings: StageSettings) -> Iterator[Measurement]:
    """Train a 10.7M GPT on Shakespeare for one minute: `shakespeare_gpu`."""
    return lengths(TEXT, settings, settings.results.settled("text"))


@stage
def translation(settings: StageSettings) -> Iterator[Measurement]:
    """Train a translator for five minutes, or as many as there is time for: `tatoeba`."""
    return lengths(TRANSLATION, settings, settings.results.settled("translation"))


def lengths(recipe: Recipe, settings: StageSettings, settled: set[str]) -> Iterator[Measurement]:
    """Yield the longest training that there is time for, if it is longer than those settled, and the most wanted one,
    which remains to be measured."""
    given = bool(getattr(settings, recipe.key)) and not settings.dry_run
    remaining = settings.deadline - time.monotonic() - 1 if given else math.inf
    done = max((minutes for minutes in recipe.minutes if recipe.name(minutes) in settled), default=0)
    fits = [minutes for minutes in recipe.minutes if recipe.seconds(minutes) < remaining]
    for minutes in dict.fromkeys([*fits[:1], recipe.minutes[0]]):
        if minutes > done:
            needed = recipe.seconds(minutes) if given else 0.0
            yield Measurement((recipe.name(minutes),), partial(train, recipe, minutes, settings), needed)


def train(recipe: Recipe, minutes: int, settings: StageSettings, wanted: Sequence[str], report: Report) -> None:
    """Train a recipe, report its progress, and then the quality that it has reached.

    The training is stopped, and has failed, as soon as it is clear that it learns nothing.
    """
    (name,), data = wanted, absolute(getattr(settings, recipe.key))
    if not data:
        return report(Figure(name, status=f"skipped: {recipe.key}= is not set"))
    overrides = [f"data.path={data}", *(recipe.tiny if settings.dry_run else ())]
    if recipe.key == "pairs":
        overrides.append(f"trainer.evaluate_minutes={minutes / 3:.3f}")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / recipe.experiment
        own = [f"name={run.name}", f"runs={folder}", f"trainer.minutes={minutes}"]
        command = [sys.executable, str(ROOT / "train.py"), f"+experiment={recipe.experiment}", *own, *overrides]
        print(" ".join(command), flush=True)
        started, progress = time.monotonic(), Progress()
        errors = Path(folder) / "errors.txt"
        with errors.open("wb") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file)
        try:
            while process.poll() is None and not progress.problem:
                time.sleep(0.2)
                if (latest := Progress.read(run)) != progress:
                    progress = latest
                    seconds = time.monotonic() - started
                    report(Figure.underway(name, f"training, {seconds:.0f} s after its start: {progress.shown}"))
        finally:
            process.kill()
            code = process.wait()
        progress, took = Progress.read(run), time.monotonic() - started
        said = errors.read_text(encoding="utf-8", errors="replace").strip()
        print(said, flush=True)
        ended = f"train.py ended with code {code}: {(said.splitlines() or [''])[-1][:160]}"
        if problem := progress.problem or (ended if code else progress.shortfall):
            report(Figure(name, status=f"failed: {problem}", facts=progress.facts))
        else:
            report(reached(name, run, progress, took))


@dataclass(frozen=True)
class Progress:
    """What the log and the evaluations of a run say so far."""

    steps: tuple[tuple[int, float, float], ...] = ()
    """Step, training loss and gradient norm of each line of the log."""

    evaluations: tuple[dict[str, Any], ...] = ()

    @classmethod
    def read(cls, run: Path) -> Progress:
        """Read the files of a run, which may not exist yet, or end in half a line."""
        log, metrics = (
            path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            for path in (run / "log.txt", run / "metrics.jsonl")
        )
        line = re.compile(r"^step (\d+)\b.*\| loss (\S+) \|.*\| norm (\S+) \|.*\n", re.MULTILINE)
        steps = tuple((int(step), number(loss), number(norm)) for step, loss, norm in line.findall(log))
        records = [json.loads(record) for record in metrics.splitlines(keepends=True) if record.endswith("\n")]
        return cls(steps, tuple(record for record in records if "val/loss" in record))

    @property
    def problem(self) -> str:
        """Why nothing is learned, if that is clear: no gradient in the first lines of the log."""
        norms = [norm for _, _, norm in self.steps]
        if len(norms) > 1 and not any(norms):
            return f"learns nothing: gradient norm {norms[-1]:.2f} in every line, up to step {self.steps[-1][0]}"
        return ""

    @property
    def shortfall(self) -> str:
        """Why the whole training is a failure, if it is."""
        if not self.steps or not self.evaluations:
            return "no step or no evaluation in the log"
        first, last = self.steps[0][1], self.steps[-1][1]
        if not last < (1 - FALL) * first:
            return f"learns nothing: training loss {first:.4f} at step {self.steps[0][0]}, {last:.4f} at the end"
        return ""

    @property
    def best(self) -> dict[str, Any]:
        """The evaluation with the lowest validation loss."""
        return min(self.evaluations, key=lambda record: record["val/loss"])

    @property
    def shown(self) -> str:
        """The latest step, and the best validation loss."""
        parts = []
        if self.steps:
            step, loss, norm = self.steps[-1]
            parts.append(f"step {step}, loss {loss:.4f}, gradient norm {norm:.2f}")
        if self.evaluations:
            parts.append(f"validation loss {self.best['val/loss']:.4f} at step {self.best['step']}")
        return "; ".join(parts)

    @property
    def facts(self) -> dict[str, Any]:
        """All numbers."""
        return {"steps": self.steps, "evaluations": self.evaluations}


def number(text: str) -> float:
    """Return the number in a log line; `-`, for none, is nan."""
    return math.nan if text == "-" else float(text)


def reached(name: str, run: Path, progress: Progress, took: float) -> Figure:
    """Return the best full-pass validation loss, the time at which it was reached, and test scores if measured."""
    best, last = progress.best, progress.evaluations[-1]
    test = json.loads((run / "test.json").read_text(encoding="utf-8")) if (run / "test.json").exists() else {}
    scores = [f"{key} {test[f'test/{key}']:.4g}" for key in ("bleu", "chrf", "loss") if f"test/{key}" in test]
    norms = [norm for _, _, norm in progress.steps]
    figure = f"validation loss {best['val/loss']:.4f} at step {best['step']}, {best['seconds']:.0f} s"
    figure += f"; test {', '.join(scores)}" if scores else ""
    beside = (
        f"{last['step']} steps, {last['tokens'] / 1e6:.3g}M tokens, training loss {progress.steps[0][1]:.3f} to"
        f" {progress.steps[-1][1]:.3f}, gradient norm {min(norms):.2f} to {max(norms):.2f}, {took:.0f} s in total"
    )
    return Figure(name, figure, beside, facts=progress.facts | {"process_seconds": took, "test": test})
