"""Measure the quality after a given time of training with `python train.py`, as a user runs it: does it learn?"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.gpu.figures import Figure, Inputs, attempt
from benchmarks.harness import ROOT

FALL = 0.05
"""Fraction by which the training loss must at least fall from the first to the last line of the log."""

TINY = (
    "model.layers=1 model.heads=2 model.width=32 model.context=32 trainer.batch_size=4 trainer.steps=40"
    " trainer.log_every=10 trainer.evaluate_every=20 trainer.evaluate_sentences=2 trainer.beam_size=2"
    " trainer.samples=0 attention.examples=1 attention.image=false data.batch_tokens=256 optim.lr=0.01"
    " schedule.warmup=2"
).split()
TINY_PAIRS = ["tokenizer.vocab_size=300", "tokenizer.byte_fallback=false", "data.max_rows=60"]

LOG_LINE = re.compile(r"^step (\d+)\b.*\| loss (\S+) \|.*\| norm (\S+) \|", re.MULTILINE)


def text(inputs: Inputs) -> Iterator[Figure]:
    """Train a 10.7M GPT on Shakespeare for one minute: `shakespeare_gpu`."""
    yield measure_recipe("shakespeare_gpu", inputs.text, 1, TINY if inputs.dry_run else [])


def translation(inputs: Inputs) -> Iterator[Figure]:
    """Train a translator for five minutes: `tatoeba`."""
    often = ["trainer.evaluate_minutes=1.6"]
    yield measure_recipe("tatoeba", inputs.pairs, 5, [*TINY, *TINY_PAIRS] if inputs.dry_run else often)


def measure_recipe(experiment: str, data: str, minutes: int, overrides: list[str]) -> Figure:
    """Train an experiment of `configs/experiment/` for some minutes and return the quality that it has reached."""
    name = f"{experiment}, {minutes} minute{'s' * (minutes > 1)} of training"
    if not data:
        return Figure(name, status=f"skipped: {'text' if experiment == 'shakespeare_gpu' else 'pairs'}= is not set")
    return attempt(name, partial(train, name, experiment, data, minutes, overrides))


def train(name: str, experiment: str, data: str, minutes: int, overrides: list[str]) -> Figure:
    """Run `train.py` in a temporary folder. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ["name=run", f"runs={folder}", f"data.path={data}", f"trainer.minutes={minutes}", *overrides]
        command = [sys.executable, str(ROOT / "train.py"), f"+experiment={experiment}", *settings]
        started = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        seconds = time.monotonic() - started
        print(done.stderr, flush=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            raise RuntimeError(f"train.py ended with code {done.returncode}: {last}")
        return quality(name, Path(folder) / "run", seconds)


def quality(name: str, run: Path, seconds: float) -> Figure:
    """Return the best validation loss of a run, when it was reached, and the test scores. Raises ArithmeticError if the
    run learns nothing."""
    lines = LOG_LINE.findall((run / "log.txt").read_text(encoding="utf-8"))
    losses = [float(loss) for _, loss, _ in lines]
    norms = [float(norm) for _, _, norm in lines if norm != "-"]
    if not any(norms):
        raise ArithmeticError("learns nothing: the gradient norm is 0 in every line of the log")
    if not losses[-1] < (1 - FALL) * losses[0]:
        raise ArithmeticError(f"learns nothing: training loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    records = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    evaluations = [record for record in records if "val/loss" in record]
    best, last = min(evaluations, key=lambda record: record["val/loss"]), evaluations[-1]
    path = run / "test.json"
    test = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    scores = [f"{key} {test[f'test/{key}']:.4g}" for key in ("bleu", "chrf", "loss") if f"test/{key}" in test]
    figure = f"validation loss {best['val/loss']:.4f} at step {best['step']}, {best['seconds']:.0f} s"
    figure += f"; test {', '.join(scores)}" if scores else ""
    beside = (
        f"{last['step']} steps, {last['tokens'] / 1e6:.3g}M tokens, training loss {losses[0]:.3f} to {losses[-1]:.3f},"
        f" gradient norm {min(norms):.2f} to {max(norms):.2f}, {seconds:.0f} s in total"
    )
    return Figure(name, figure, beside, facts={"evaluations": evaluations, "seconds": seconds, "test": test})
