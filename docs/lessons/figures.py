"""Print the explanations and numbers of a lesson, compare the numbers with the text's, and draw pictures.

Run as a script, a lesson prints each Markdown cell before the output of the next cells. Pictures are saved in `images/`
next to this file, or in the folder given by the environment variable `LESSON_IMAGES`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from numpy.typing import ArrayLike
from PIL import Image

from attention_maps.draw.fonts import font
from attention_maps.draw.heat_map import DPI, INK, LABEL, LINE, MUTED, NAME, PAPER, SUBTITLE, TITLE, colours
from attention_maps.draw.labels import fitted

COLOURS = ("#3a69d2", "#e0913a", "#4a9c7d")
"""The blue of the heat maps, and two colours that can be told apart with any kind of colour vision."""

EXPLAINED: dict[str, int] = {}
"""Number of lines whose explanations have been printed, by path of the lesson."""


def explain() -> None:
    """Print the Markdown cells above the current line of a lesson, each once. In a notebook, print nothing."""
    call = next((call for call in inspect.stack(0) if call.function == "<module>"), None)
    if call is None or Path(call.filename).parent != Path(__file__).parent:
        return
    markdown, printed = False, EXPLAINED.get(call.filename, 0)
    for number, line in enumerate(Path(call.filename).read_text(encoding="utf-8").splitlines()[: call.lineno]):
        begins = line.startswith("# %%")
        markdown = line.startswith("# %% [markdown]") if begins else markdown
        if markdown and number >= printed:
            print("" if begins else line.removeprefix("#").removeprefix(" "))
    EXPLAINED[call.filename] = call.lineno


def show(*values: object) -> None:
    """Print the values, after the explanations above the current line."""
    explain()
    print(*values)


def compare(name: str, text: ArrayLike, ours: ArrayLike, digits: int = 4, within: float | None = None) -> None:
    """Print a number or a matrix of the text alongside ours, to the precision of the text, and whether they agree.
    within: the largest difference that counts as agreement; default: half a unit of the last digit."""
    explain()
    theirs, mine = np.atleast_2d(np.asarray(text, float)), np.atleast_2d(np.asarray(ours, float))
    agree = np.allclose(theirs, mine, rtol=0, atol=0.501 * 10.0**-digits if within is None else within)
    verdict = "agrees" if agree else "DIFFERS"
    expected, got = ([" ".join(f"{x:{digits + 4}.{digits}f}" for x in row) for row in side] for side in (theirs, mine))
    if theirs.size == 1:
        print(f"{fitted(name, 40)} the text says {expected[0]}   we get {got[0]}   {verdict}")
    elif len(expected[0]) < 50:
        print(f"{name}: {verdict}\n  {'the text says':<{len(expected[0]) + 4}}we get")
        print("\n".join(f"  {left}    {right}" for left, right in zip(expected, got, strict=True)))
    else:
        print("\n  ".join((f"{name}: {verdict}", "the text says", *expected, "we get", *got)))


def picture(name: str, pixels: np.ndarray) -> Image.Image:
    """Save an image [h, w, 3] uint8 as `name`.png and return it, so that a notebook displays it."""
    explain()
    folder = Path(os.environ.get("LESSON_IMAGES", Path(__file__).parent / "images"))
    folder.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    image.save(folder / f"{name}.png", optimize=True)
    print(f"picture: {folder / name}.png")
    return image


def beside(*images: np.ndarray) -> np.ndarray:
    """Join images [h, w, 3] uint8 in one row, with their tops aligned."""
    height = max(map(len, images))
    return np.hstack([np.pad(i, ((0, height - len(i)), (0, 0), (0, 0)), constant_values=255) for i in images])


def bars(labels: Sequence[str], series: Mapping[str, Sequence[float]], title: str, subtitle: str) -> np.ndarray:
    """Draw a group of bars per label, one bar per series with its value on top, as an image [h, w, 3] uint8."""
    figure, axes = _chart(max(72 * len(labels) + 110, 560), 340, title, subtitle)
    width = 0.84 / len(series)
    for number, (name, values) in enumerate(series.items()):
        middles = np.arange(len(labels)) + (number - (len(series) - 1) / 2) * width
        drawn = axes.bar(middles, values, width * 0.92, color=COLOURS[number], label=name)
        axes.bar_label(drawn, fmt="%.2f", padding=3, color=INK, fontproperties=font(7))
    axes.set_xticks(range(len(labels)), labels, fontproperties=font(LABEL), color=INK)
    axes.tick_params("x", length=0, pad=6)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.margins(y=0.1)
    _legend(axes)
    return _pixels(figure)


def curves(
    x: Sequence[float], series: Mapping[str, Sequence[float]], title: str, subtitle: str, x_name: str
) -> np.ndarray:
    """Draw lines over positive x and y on log2 scales, as an image [h, w, 3] uint8."""
    figure, axes = _chart(560, 360, title, subtitle)
    for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
        axes.plot(x, values, "o-", color=colour, label=name, markersize=5, linewidth=1.8)
    axes.loglog(base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel(x_name, fontproperties=font(NAME), color=MUTED)
    _legend(axes)
    return _pixels(figure)


def graphs(
    panels: Mapping[str, tuple[np.ndarray, Sequence[str], Sequence[str]]], title: str, subtitle: str
) -> np.ndarray:
    """Draw maps [Q, K] as graphs, side by side, as an image [h, w, 3] uint8; arrows from query to key are thicker and
    darker for larger weights. panels: name -> (weights, query labels, key labels)."""
    rows = max(max(len(queries), len(keys)) for _, queries, keys in panels.values())
    width, height = 300 * len(panels), 46 * rows + 120
    figure, axes = _chart(width, height, title, subtitle)
    axes.set_axis_off()
    axes.set_position((0, 0, 1, 1 - 70 / height))
    axes.set(xlim=(0, len(panels)), ylim=(rows - 0.4, -1.1))
    for panel, (name, (weights, queries, keys)) in enumerate(panels.items()):
        left, right = panel + 0.24, panel + 0.7
        axes.text(panel + 0.47, -0.75, name, fontproperties=font(LABEL), color=INK, ha="center")
        for x, labels, align in ((left - 0.03, queries, "right"), (right + 0.03, keys, "left")):
            for y, label in enumerate(labels):
                axes.text(x, y, label, fontproperties=font(LABEL), color=INK, ha=align, va="center_baseline")
        for (query, key), weight in sorted(np.ndenumerate(weights), key=lambda edge: edge[1]):
            if weight > 0:
                line = {"linewidth": 0.5 + 3 * weight, "color": colours(0.1 + 0.6 * weight)}
                ends = {"shrinkA": 0, "shrinkB": 0, "arrowstyle": "-|>", "mutation_scale": 7 + 9 * weight}
                axes.add_patch(FancyArrowPatch((left, query), (right, key), joinstyle="miter", **line, **ends))
    return _pixels(figure)


def arrows(start: np.ndarray, groups: Mapping[str, np.ndarray], name: str, title: str, subtitle: str) -> np.ndarray:
    """Draw arrows in a plane from a point [2] to the points [N, 2] of each group (one label and colour per group)."""
    figure, axes = _chart(560, 400, title, subtitle)
    axes.set_axis_off()
    axes.set_aspect("equal", adjustable="datalim")
    directions = []
    for colour, (label, ends) in zip(COLOURS, groups.items(), strict=False):
        for x, y in ends:
            style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8, "shrinkA": 5, "shrinkB": 0}
            axes.annotate("", (x, y), tuple(start), arrowprops=style)
            directions.append(np.arctan2(y - start[1], x - start[0]))
        middle = np.arctan2(*(ends.mean(axis=0) - start)[::-1])
        farthest = max(ends, key=lambda end: float(np.linalg.norm(end - start)))
        _name_point(axes, label, farthest, 0, 14 * np.sign(np.sin(middle)))
    freest = min(np.arange(0, 2 * np.pi, 0.1), key=lambda angle: max(np.cos(angle - other) for other in directions))
    _name_point(axes, name, start, 30 * np.cos(freest), 16 * np.sin(freest))
    axes.plot(*start, "o", color=INK, markersize=7)
    axes.plot(*np.vstack(list(groups.values())).T, "none")  # arrows alone do not extend the limits
    axes.margins(0.16, 0.12)
    return _pixels(figure)


def _name_point(axes: Axes, text: str, point: np.ndarray, right: float, up: float) -> None:
    """Write a text at an offset (in points) from a point of the plane."""
    style = {"ha": "center", "va": "center", "color": INK, "fontproperties": font(LABEL)}
    axes.annotate(text, (point[0], point[1]), (right, up), textcoords="offset points", **style)


def _chart(width: int, height: int, title: str, subtitle: str) -> tuple[Figure, Axes]:
    """Create axes below a title, in the style of the heat maps; sizes in pixels."""
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
    figure.text(18 / width, 1 - 32 / height, title, fontproperties=font(TITLE, bold=True), color=INK)
    figure.text(18 / width, 1 - 53 / height, subtitle, fontproperties=font(SUBTITLE), color=MUTED)
    axes = figure.add_axes((48 / width, 46 / height, 1 - 66 / width, 1 - 138 / height))
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.grid(axis="y", color=LINE, linewidth=0.5, alpha=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelsize=NAME, width=0.6)
    return figure, axes


def _legend(axes: Axes) -> None:
    """Draw the names of the series above the axes, so that no bar or line overlaps them."""
    place = {"loc": "lower left", "bbox_to_anchor": (-0.01, 1.0), "borderaxespad": 0.2}
    axes.legend(frameon=False, prop=font(SUBTITLE), ncols=3, labelcolor=INK, **place)


def _pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
