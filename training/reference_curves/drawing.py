"""Draw the validation loss of a run beside that of the reference run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training.reference_curves.curve import Curve


def draw(mine: Curve, reference: Curve, name: str, path: Path) -> None:
    """Write a picture, PNG or SVG by the suffix of `path`."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "svg.hashsalt": "curves"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(7, 4), layout="constrained", dpi=150)
        axes = figure.subplots()
        curves = ((reference, f"reference run of {reference.recipe}", "#999999"), (mine, name, "#c0392b"))
        for curve, label, colour in curves:
            steps, losses = [point.step for point in curve.points], [point.loss for point in curve.points]
            axes.plot(steps, losses, "o-", color=colour, label=label, markersize=3.5, linewidth=1.4)
        axes.set_xlabel("step")
        axes.set_ylabel("validation loss, nats per token")
        axes.legend(frameon=False)
        figure.savefig(path)
