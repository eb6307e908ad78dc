"""Compare loss curves of the fast path and of the reference, with the same initial weights and the same batches.

The reference computes in float32 with `reference_attention`, not compiled. The fast path is the default: bf16 weights
with float32 master weights, explicit or fused attention, compiled or not. A second reference run on other batches of
the same text gives the noise level of a difference between two curves.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.inputs import existing
from benchmarks.machine import versions
from benchmarks.report import markdown_table
from benchmarks.shape import model_settings
from configs.errors import UserError
from configs.program import expanded

REFERENCE, EAGER, COMPILED = "float32 reference", "bf16", "bf16 compiled"
OTHER_ORDER = f"{REFERENCE}, other batches"
MODEL = {"layers": 4, "heads": 4, "width": 128, "context": 64, "dropout": 0}
BATCH = 12
WINDOW = 20
"""Steps per point of a smoothed curve."""

FILE = "curves.json"

COLOURS = {REFERENCE: "#1f2937", EAGER: "#2563eb", COMPILED: "#d97706", OTHER_ORDER: "#9ca3af"}


@dataclass
class CurvesSettings:
    """Settings of `curves`."""

    data: str = "input.txt"
    """A text file of at least a megabyte."""

    steps: int = 500
    """Optimiser steps of each run."""

    to: str = "benchmarks/results"
    """Output folder for `curves.json`."""

    picture: str = "docs/images/curves.svg"
    """Output file for the plot."""


@dataclass
class Curve:
    """Losses of one run."""

    name: str
    losses: list[float]
    """Mean training loss over `WINDOW` steps in nats, one point every `WINDOW` steps."""
    validation: float
    """Loss over the whole validation split after the last step, in nats."""


@dataclass
class Curves:
    """All runs of one measurement; the first is the reference."""

    steps: int
    batch_size: int
    versions: dict[str, str]
    curves: list[Curve]

    def curve(self, name: str) -> Curve:
        """Return the run of this name."""
        return next(curve for curve in self.curves if curve.name == name)

    def gaps(self, name: str) -> list[float]:
        """Return the smoothed curve minus the reference's curve, in nats at each point."""
        reference = self.curve(REFERENCE).losses
        return [loss - other for loss, other in zip(self.curve(name).losses, reference, strict=True)]

    def largest_gap(self, name: str) -> float:
        """Return the largest absolute difference from the reference, in nats."""
        return max(map(abs, self.gaps(name)))

    def save(self, path: Path) -> None:
        """Write the curves as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Curves:
        """Read curves written by `save`."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["curves"] = [Curve(**curve) for curve in values["curves"]]
        return cls(**values)


def curves(settings: CurvesSettings) -> None:
    """Compare loss curves of the fast path and the float32 reference, with the same initial weights and batches."""
    text = existing("data", settings.data)
    if settings.steps < WINDOW:
        raise UserError(f"steps={settings.steps}: must be at least {WINDOW}, the steps per point of a curve")
    fixed = f"data=text tokenizer=char trainer.batch_size={BATCH} trainer.steps={settings.steps}"
    own = [*fixed.split(), f"data.path={text}", *model_settings(MODEL)]
    reference, fast = ["trainer.precision=float32", "trainer.compile=off"], ["trainer.precision=bf16"]
    found = [
        run(REFERENCE, own + reference, by_definition=True),
        run(EAGER, [*own, *fast, "trainer.compile=off"]),
        run(COMPILED, [*own, *fast, "trainer.compile=on"]),
        run(OTHER_ORDER, own + reference, by_definition=True, order=2),
    ]
    result = Curves(settings.steps, BATCH, versions(), found)
    file, picture = expanded(settings.to) / FILE, expanded(settings.picture)
    for path in (file, picture):
        path.parent.mkdir(parents=True, exist_ok=True)
    result.save(file)
    draw(result, picture)
    print(f"{summary(result)}\n\n{file}, {picture}")


def run(name: str, settings: list[str], *, by_definition: bool = False, order: int = 1) -> Curve:
    """Train as `python train.py` does with these settings, but without a log and checkpoints.

    `by_definition`: use `reference_attention`. `order`: seed of the batches; all runs have the same weight seed.
    """
    from benchmarks.ours import StrictLog, composed, folder_until_exit, prepared_and_model
    from model.recording import record_attention
    from model.size import flops_per_token
    from training.evaluation.held_out import held_out_loss
    from training.hardware.compilation import eagerly
    from training.hardware.device import choose_hardware
    from training.progress import Interval
    from training.trainer import Trainer

    config = composed(settings)
    hardware = choose_hardware(config.trainer.device, config.trainer.precision, config.trainer.threads)
    prepared, model = prepared_and_model(config)
    stream = prepared.training(config.trainer.batch_size, seed=order)
    trainer = Trainer(config, model, stream, hardware, flops_per_token(model, config.model.context))
    trainer.loss.log = StrictLog(folder_until_exit(), 0).line
    model.train()
    losses: list[float] = []
    # The recording hook computes attention by its definition, including gradients.
    with record_attention(model) if by_definition else nullcontext():
        for _ in tqdm(range(config.trainer.steps or 0), desc=name, unit="step", disable=None, leave=False):
            trainer.step()
            losses.append(trainer.since_log.mean_loss)
            trainer.since_log = Interval()
        model.eval()
        with trainer.weights.averaged(), eagerly(trainer.loss.compiled):
            held_out = held_out_loss(
                model, prepared.evaluation("valid", 64), prepared.bytes("valid"), prepared.lost("valid")
            )
    return Curve(name, smoothed(losses), round(held_out.per_token, 5))


def smoothed(losses: list[float]) -> list[float]:
    """Return the means of consecutive windows of `WINDOW` steps; an incomplete last window is dropped."""
    edges = range(0, len(losses) + 1, WINDOW)
    return [round(float(np.mean(losses[start:end])), 5) for start, end in pairwise(edges)]


def draw(result: Curves, path: Path) -> None:
    """Plot the curves and their differences from the reference, as SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    steps = [WINDOW * (number + 1) for number in range(len(result.curves[0].losses))]
    spines = {"axes.spines.top": False, "axes.spines.right": False}
    style: Any = {"svg.hashsalt": "curves", "font.size": 9, **spines}
    with matplotlib.rc_context(style):  # the fixed salt makes the SVG file reproducible
        figure = Figure(figsize=(7, 4.6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for curve in (result.curve(name) for name in (OTHER_ORDER, REFERENCE, EAGER, COMPILED)):
            line: Any = {"color": COLOURS[curve.name], "linestyle": "--" if curve.name == COMPILED else "-"}
            above.plot(steps, curve.losses, label=curve.name, **line, linewidth=1.4)
            below.plot(steps, result.gaps(curve.name), **line, linewidth=1.4)
        above.set_ylabel("training loss, nats")
        above.legend(frameon=False)
        below.set_ylabel("minus reference")
        below.set_xlabel(f"step (means of {WINDOW})")
        figure.savefig(path, metadata={"Date": None})


def summary(result: Curves) -> str:
    """Return the results as a Markdown table, with the noise level as a caption."""
    reference = result.curve(REFERENCE).validation
    rows = []
    for curve in result.curves:
        differences = ("–", "–")
        if curve.name != REFERENCE:
            differences = (f"{curve.validation - reference:+.4f}", f"{result.largest_gap(curve.name):.4f}")
        rows.append((curve.name, f"{curve.validation:.4f}", *differences))
    headings = ("validation loss", "difference from reference", "largest difference of smoothed training curves")
    noise, deviation = result.largest_gap(OTHER_ORDER), max(map(result.largest_gap, (EAGER, COMPILED)))
    return (
        f"{markdown_table(('run', *headings), rows)}\n\n"
        f"{result.steps} steps, batch {result.batch_size}; losses in nats, means of {WINDOW} steps; torch"
        f" {result.versions['torch']}. The fast path deviates from the reference by at most {deviation:.4f}; training"
        f" on other batches of the same text deviates by {noise:.4f}."
    )
