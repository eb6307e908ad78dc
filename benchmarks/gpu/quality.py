"""Real training, by the clock: `python train.py` as a user runs it, and the quality that it reached."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import Figure, Sheet, StageSettings
from benchmarks.harness import ROOT
from configs.program import expanded

AROUND_TEXT, AROUND_PAIRS = 35.0, 75.0
"""Seconds that a run takes beside its training: start, data, the test at the end (a beam search over a thousand
sentences)."""

SHORTEST = 0.25
"""Minutes below which a run says nothing."""

TINY = (
    "model.layers=1 model.heads=2 model.width=32 model.context=32 trainer.batch_size=4 trainer.steps=2"
    " trainer.evaluate_sentences=2 trainer.beam_size=2 attention.examples=1 attention.image=false data.batch_tokens=256"
    " trainer.samples=0"
).split()
TINY_TEXT = ["data.max_rows=50"]
TINY_PAIRS = ["tokenizer.vocab_size=300", "tokenizer.byte_fallback=false", "data.max_rows=60"]


def text(settings: StageSettings) -> None:
    """A minute of training a 10.7M GPT on Shakespeare: `shakespeare_gpu`."""
    sheet = Sheet(settings.to)
    what = "shakespeare_gpu"
    if not settings.text:
        sheet.add(Figure(what, status="skipped: text=FILE was not given"))
        return
    minutes = min(1.0, (settings.seconds - AROUND_TEXT) / 60)
    overrides = [f"data.path={expanded(settings.text).absolute()}", *(TINY if settings.dry_run else [])]
    train(sheet, what, overrides, minutes, 1.0, settings)


def translation(settings: StageSettings) -> None:
    """Up to five minutes of training a translator: `tatoeba`."""
    sheet = Sheet(settings.to)
    what = "tatoeba"
    if not settings.pairs:
        sheet.add(Figure(what, status="skipped: pairs=FOLDER was not given"))
        return
    minutes = min(5.0, (settings.seconds - AROUND_PAIRS) / 60)
    overrides = [
        f"data.path={expanded(settings.pairs).absolute()}",
        f"trainer.evaluate_minutes={max(minutes, 0.1) / 3:.3f}",
    ]
    train(sheet, what, [*overrides, *([*TINY, *TINY_PAIRS] if settings.dry_run else [])], minutes, 5.0, settings)


def train(
    sheet: Sheet, experiment: str, overrides: list[str], minutes: float, wanted: float, settings: StageSettings
) -> None:
    """Train an experiment for `minutes` and add what it reached; less than `wanted` minutes are said so."""
    if settings.dry_run:
        minutes = wanted
    if minutes < SHORTEST:
        sheet.add(Figure(experiment, status=f"cut: no time left for {wanted:g} minutes of training"))
        return
    run = Path("runs") / f"{experiment}_{time.time_ns()}"
    command = [
        sys.executable,
        str(ROOT / "train.py"),
        f"+experiment={experiment}",
        f"name={run.name}",
        f"runs={run.parent.absolute()}",
        f"trainer.minutes={minutes:.3f}",
        *overrides,
    ]
    print(" ".join(command), flush=True)
    started = time.perf_counter()
    done = subprocess.run(command, check=False)
    took = time.perf_counter() - started
    if done.returncode:
        sheet.add(Figure(experiment, status=f"failed: train.py ended with code {done.returncode}"))
        return
    sheet.add(reached(experiment, run, minutes, wanted, took))


def reached(experiment: str, run: Path, minutes: float, wanted: float, took: float) -> Figure:
    """The best validation loss, full pass, with the time when it was reached; test scores where the run
    measured any."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluated = [line for line in lines if "val/loss" in line]
    best = min(evaluated, key=lambda line: line["val/loss"])
    test = read_test(run / "test.json")
    scores = [f"{name} {test[f'test/{name}']:.4g}" for name in ("bleu", "chrf", "loss") if f"test/{name}" in test]
    shorter = f" (of {wanted:g}: no more time was left)" if minutes < wanted else ""
    beside = (
        f"{minutes:.3g} minutes of training{shorter}, {evaluated[-1]['step']} steps, "
        f"{evaluated[-1]['tokens'] / 1e6:.3g}M tokens, {took:.0f} s in all"
    )
    figure = f"validation loss {best['val/loss']:.4f} at {best['seconds']:.0f} s" + (
        f"; test {', '.join(scores)}" if scores else ""
    )
    return Figure(
        experiment,
        figure,
        beside,
        facts={"minutes": minutes, "process_seconds": took, "evaluations": evaluated, "test": test},
    )


def read_test(path: Path) -> dict[str, Any]:
    """What the run wrote of its test splits; empty where it has none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found
