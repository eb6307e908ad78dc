"""Measure the quality after a given time of training with `python train.py`, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.figures import Figure, StageSettings, stage
from benchmarks.harness import ROOT
from benchmarks.inputs import absolute

SHORTEST = 0.25
"""Minimum training time in minutes."""

TINY = (
    "model.layers=1 model.heads=2 model.width=32 model.context=32 trainer.batch_size=4 trainer.steps=2"
    " trainer.evaluate_sentences=2 trainer.beam_size=2 attention.examples=1 attention.image=false data.batch_tokens=256"
    " trainer.samples=0"
).split()
TINY_PAIRS = ["tokenizer.vocab_size=300", "tokenizer.byte_fallback=false", "data.max_rows=60"]


@stage
def text(settings: StageSettings) -> Iterator[Figure]:
    """Train a 10.7M GPT on Shakespeare for one minute: `shakespeare_gpu`."""
    yield train("shakespeare_gpu", "text", settings, wanted=1.0, around=35.0, tiny=TINY)


@stage
def translation(settings: StageSettings) -> Iterator[Figure]:
    """Train a translator for up to five minutes: `tatoeba`."""
    yield train("tatoeba", "pairs", settings, wanted=5.0, around=75.0, tiny=[*TINY, *TINY_PAIRS])


def train(experiment: str, key: str, settings: StageSettings, wanted: float, around: float, tiny: list[str]) -> Figure:
    """Train an experiment on the data of the setting `key` and return the quality reached.

    wanted: minutes of training, reduced (and reported) if the stage has less time. around: seconds of a run outside
    training (start, data, final test). tiny: overrides for a dry run.
    """
    data = absolute(getattr(settings, key))
    if not data:
        return Figure(experiment, status=f"skipped: {key}= is not set")
    minutes = wanted if settings.dry_run else min(wanted, (settings.seconds - around) / 60)
    if minutes < SHORTEST:
        return Figure(experiment, status=f"not measured: no time left for {wanted:g} minutes of training")
    overrides = [f"data.path={data}", *(tiny if settings.dry_run else [])]
    if key == "pairs":
        overrides.append(f"trainer.evaluate_minutes={minutes / 3:.3f}")
    run = Path("runs") / f"{experiment}_{time.time_ns()}"
    own = [f"name={run.name}", f"runs={run.parent.absolute()}", f"trainer.minutes={minutes:.3f}"]
    command = [sys.executable, str(ROOT / "train.py"), f"+experiment={experiment}", *own, *overrides]
    print(" ".join(command), flush=True)
    started = time.perf_counter()
    done = subprocess.run(command, check=False)
    took = time.perf_counter() - started
    if done.returncode:
        return Figure(experiment, status=f"failed: train.py ended with code {done.returncode}")
    return reached(experiment, run, minutes, wanted, took)


def reached(experiment: str, run: Path, minutes: float, wanted: float, took: float) -> Figure:
    """Return the best full-pass validation loss, the time at which it was reached, and test scores if measured."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluated = [line for line in lines if "val/loss" in line]
    best = min(evaluated, key=lambda line: line["val/loss"])
    test = json.loads((run / "test.json").read_text(encoding="utf-8")) if (run / "test.json").exists() else {}
    scores = [f"{name} {test[f'test/{name}']:.4g}" for name in ("bleu", "chrf", "loss") if f"test/{name}" in test]
    shorter = f" (of {wanted:g}: no time left)" if minutes < wanted else ""
    beside = (
        f"{minutes:.3g} minutes of training{shorter}, {evaluated[-1]['step']} steps, "
        f"{evaluated[-1]['tokens'] / 1e6:.3g}M tokens, {took:.0f} s in total"
    )
    figure = f"validation loss {best['val/loss']:.4f} at {best['seconds']:.0f} s"
    figure += f"; test {', '.join(scores)}" if scores else ""
    facts = {"minutes": minutes, "process_seconds": took, "evaluations": evaluated, "test": test}
    return Figure(experiment, figure, beside, facts=facts)
