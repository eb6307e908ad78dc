"""Draw validation losses: a run beside the reference run of its recipe, and the reference runs of all recipes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.reference_curves.curve import Curve

STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "svg.hashsalt": "curves"}
COLUMNS = 3
"""Pictures side by side."""


def draw(mine: Curve, reference: Curve, name: str, path: Path) -> None:
    """Write a picture, PNG or SVG by the suffix of `path`."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained", dpi=150)
        axes = figure.subplots()
        curves = ((reference, f"reference run of {reference.recipe}", "#999999"), (mine, name, "#c0392b"))
        for curve, label, colour in curves:
            plot(axes, curve, label, colour)
        axes.set_xlabel("step")
        axes.set_ylabel("validation loss, nats per token")
        axes.legend(frameon=False)
        figure.savefig(path)


def draw_all(references: Sequence[Curve], path: Path) -> None:
    """Write a picture with a panel for each reference curve."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        rows = -(-len(references) // COLUMNS)
        figure = Figure(figsize=(9, 0.4 + 2.4 * rows), layout="constrained", dpi=150)
        panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
        for axes, curve in zip(panels, references, strict=False):
            plot(axes, curve, curve.recipe, "#c0392b")
            axes.set_title(f"{curve.recipe}: {curve.points[-1].loss:.3f}", fontsize=9)
            axes.set_xlabel(f"step ({curve.points[-1].seconds / 60:.3g} minutes)")
        for axes in panels[len(references) :]:
            axes.set_axis_off()
        figure.supylabel("validation loss, nats per token", fontsize=9)
        figure.savefig(path)


def plot(axes: Any, curve: Curve, label: str, colour: str) -> None:
    """Draw the losses of a curve over its steps."""
    steps, losses = [point.step for point in curve.points], [point.loss for point in curve.points]
    axes.plot(steps, losses, "o-", color=colour, label=label, markersize=3.5, linewidth=1.4)
