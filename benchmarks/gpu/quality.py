"""Training for a given time with `python train.py`, as a user runs it, and the quality that it reaches."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.gpu.figures import Figure, Sheet, StageSettings
from benchmarks.harness import ROOT
from benchmarks.inputs import absolute

SHORTEST = 0.25
"""Minutes below which a run is not worth its start."""

TINY = (
    "model.layers=1 model.heads=2 model.width=32 model.context=32 trainer.batch_size=4 trainer.steps=2"
    " trainer.evaluate_sentences=2 trainer.beam_size=2 attention.examples=1 attention.image=false data.batch_tokens=256"
    " trainer.samples=0"
).split()
TINY_PAIRS = ["tokenizer.vocab_size=300", "tokenizer.byte_fallback=false", "data.max_rows=60"]


def text(settings: StageSettings) -> None:
    """A minute of training a 10.7M GPT on Shakespeare: `shakespeare_gpu`."""
    train("shakespeare_gpu", "text", settings, wanted=1.0, around=35.0, tiny=TINY)


def translation(settings: StageSettings) -> None:
    """Up to five minutes of training a translator: `tatoeba`."""
    train("tatoeba", "pairs", settings, wanted=5.0, around=75.0, tiny=[*TINY, *TINY_PAIRS])


def train(experiment: str, key: str, settings: StageSettings, wanted: float, around: float, tiny: list[str]) -> None:
    """Train an experiment on the data of the setting `key` and report the quality that it reached.

    wanted: minutes of training, fewer where the stage has less time, which the figure then says. around: seconds of a
    run besides its training (start, data, the test at the end). tiny: overrides of a dry run.
    """
    sheet = Sheet(settings.to)
    data = absolute(getattr(settings, key))
    if not data:
        sheet.add(Figure(experiment, status=f"skipped: {key}= was not given"))
        return
    minutes = wanted if settings.dry_run else min(wanted, (settings.seconds - around) / 60)
    if minutes < SHORTEST:
        sheet.add(Figure(experiment, status=f"cut: no time left for {wanted:g} minutes of training"))
        return
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
        sheet.add(Figure(experiment, status=f"failed: train.py ended with code {done.returncode}"))
        return
    sheet.add(reached(experiment, run, minutes, wanted, took))


def reached(experiment: str, run: Path, minutes: float, wanted: float, took: float) -> Figure:
    """The best validation loss, full pass, with the time when it was reached; test scores where the run
    measured any."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluated = [line for line in lines if "val/loss" in line]
    best = min(evaluated, key=lambda line: line["val/loss"])
    test = json.loads((run / "test.json").read_text(encoding="utf-8")) if (run / "test.json").exists() else {}
    scores = [f"{name} {test[f'test/{name}']:.4g}" for name in ("bleu", "chrf", "loss") if f"test/{name}" in test]
    shorter = f" (of {wanted:g}: no more time was left)" if minutes < wanted else ""
    beside = (
        f"{minutes:.3g} minutes of training{shorter}, {evaluated[-1]['step']} steps, "
        f"{evaluated[-1]['tokens'] / 1e6:.3g}M tokens, {took:.0f} s in all"
    )
    figure = f"validation loss {best['val/loss']:.4f} at {best['seconds']:.0f} s"
    figure += f"; test {', '.join(scores)}" if scores else ""
    facts = {"minutes": minutes, "process_seconds": took, "evaluations": evaluated, "test": test}
    return Figure(experiment, figure, beside, facts=facts)
