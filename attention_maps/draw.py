"""Labelled heat maps as images, drawn in memory: no window, no pyplot, no global matplotlib state.

Everything is placed in pixels on one canvas, so that cells are whole pixels and no label is ever cut or overlaps
another. Shapes: Q queries (rows), K keys (columns).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attention_maps.fonts import drawable, font, has_bold, readable, vertical

DPI = 100
POINT = DPI / 72  # pixels

INK, MUTED, LINE, PAPER = "#1f2937", "#6b7280", "#cbd5e1", "#ffffff"
HIDDEN = (0.906, 0.898, 0.882)  # the future, which a causal row cannot see: not the colour of a small weight
INVALID = (0.86, 0.15, 0.15)  # NaN: the model diverged
SCALE = LinearSegmentedColormap.from_list("weight", ["#f6f9fe", "#d3e2fa", "#86aeee", "#3a69d2", "#1d3c98", "#0c1648"])

MARGIN = 18
GAP = 7  # between a label and its map
BAR = 13  # width of the colour bar


def heat_map(
    weights: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    *,
    subtitle: str = "",
    row_name: str = "",
    column_name: str = "",
    right: Sequence[str] = (),
    right_name: str = "",
    causal: bool = False,
    maximum: float | None = None,
) -> np.ndarray:
    """One map [Q,K] with a label on every row and column, as an RGB image [h,w,3] uint8.

    `right` names the rows a second time on the other side (what each row predicts, beside what it reads); it may be
    shorter. Small maps carry their numbers. `causal` greys the cells above the diagonal. `maximum` fixes the top of
    the colour scale.
    """
    sides = _Sides(rows, columns, row_name, column_name, right, right_name)
    cell = _cell(max(weights.shape), 46, 1300)
    return _paint({"": weights}, 1, cell, sides, title, subtitle, causal, maximum)


def small_multiples(
    panels: Mapping[str, np.ndarray],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    *,
    subtitle: str = "",
    row_name: str = "",
    column_name: str = "",
    causal: bool = False,
    maximum: float | None = None,
) -> np.ndarray:
    """Several maps [Q,K] over the same tokens side by side, on one colour scale, as an RGB image [h,w,3] uint8.

    `panels` maps each panel's name to its weights; rows are labelled at the left edge, columns at the top edge.
    """
    if not panels:
        raise ValueError("no maps to draw")
    fewest = int(np.ceil(np.sqrt(len(panels))))
    across = min(range(fewest, max(fewest, 2 * fewest - 1) + 1), key=lambda n: (-len(panels) % n, n))  # no orphan row
    sides = _Sides(rows, columns, row_name, column_name, (), "")
    longest = max(max(weights.shape) for weights in panels.values())
    return _paint(panels, across, _cell(longest, 26, 420), sides, title, subtitle, causal, maximum)


@dataclass(frozen=True)
class _Sides:
    """What is written along the edges of a map."""

    rows: Sequence[str]
    columns: Sequence[str]
    row_name: str
    column_name: str
    right: Sequence[str]
    right_name: str


def _cell(longest: int, largest: int, room: int) -> int:
    """Pixels of a cell: `largest` for a short text, so much that `longest` of them fill the `room`, but at least 3."""
    return int(np.clip(room / max(longest, 1), 3, largest if longest <= 14 else 0.8 * largest))


def _paint(
    panels: Mapping[str, np.ndarray],
    across: int,
    cell: int,
    sides: _Sides,
    title: str,
    subtitle: str,
    causal: bool,
    maximum: float | None,
) -> np.ndarray:
    title, subtitle = drawable(title), drawable(subtitle)
    queries, keys = len(sides.rows), len(sides.columns)
    if not queries or not keys:
        raise ValueError("a map without tokens cannot be drawn")
    for name, weights in panels.items():
        if weights.shape != (queries, keys):
            raise ValueError(
                f"map {name!r} is {list(weights.shape)}, but there are {queries} row and {keys} column labels"
            )
    size = float(np.clip(cell / (1.65 * POINT), 5.5, 11))
    every = int(np.ceil(size * POINT * 1.25 / cell))  # of very long texts only every n-th token is named
    left = [readable(piece) for piece in sides.rows]
    right = [readable(piece) for piece in sides.right]
    top = [readable(piece) for piece in sides.columns]
    turned = _turned(top, size, cell * every)

    left_width = max([_width(sides.row_name, 8.5), *(_width(label, size) for label in left)])
    right_width = max([_width(sides.right_name, 8.5), *(_width(label, size) for label in right)]) if right else 0
    top_height = max(_height(label, size, turn) for label, turn in zip(top, turned, strict=True))
    width, height = keys * cell, queries * cell
    down = -(-len(panels) // across)
    space = max(16, cell) if len(panels) > 1 else 0
    panel_title = 24 if len(panels) > 1 else 0

    first_x = MARGIN + left_width + GAP
    first_y = (
        MARGIN + (28 if title else 0) + (20 if subtitle else 0) + (22 if sides.column_name else 0) + top_height + GAP
    )
    first_y += panel_title
    content = first_x + across * width + (across - 1) * space + (GAP + right_width if right else 0)
    bar_x = content + 26
    full_width = max(bar_x + BAR + 52, 2 * MARGIN + max(_width(title, 13, has_bold(title)), _width(subtitle, 9.5)))
    full_height = first_y + down * height + (down - 1) * (space + panel_title) + MARGIN
    full_height = max(full_height, first_y + 90)
    canvas = _Canvas(full_width, full_height)

    if title:
        canvas.write(MARGIN, MARGIN + 9, title, 13, bold=has_bold(title))
    if subtitle:
        canvas.write(MARGIN, MARGIN + (28 if title else 0) + 7, subtitle, 9.5, colour=MUTED)

    maximum = maximum if maximum is not None else _maximum(panels.values())
    for number, (name, weights) in enumerate(panels.items()):
        x = first_x + number % across * (width + space)
        y = first_y + number // across * (height + space + panel_title)
        if name:
            above = top_height + GAP if number < across else 0
            canvas.write(x, y - above - 11, name, 9.5, bold=has_bold(name))
        colours = _colours(weights, maximum, causal)
        canvas.image(x, y, _blocks(colours, cell))
        canvas.frame(x, y, width, height)
        if cell >= 30:
            _numbers(canvas, x, y, cell, weights, colours, causal)
        if number < across:
            _above(canvas, x, y, cell, top, turned, size, every)
        if number % across == 0:
            for row in range(0, queries, every):
                canvas.write(x - GAP, y + (row + 0.5) * cell, left[row], size, align="right")
    header_y = first_y - 8
    canvas.write(first_x - GAP, header_y, sides.row_name, 8.5, align="right", colour=MUTED)
    if right:
        for row in range(0, len(right), every):
            canvas.write(first_x + width + GAP, first_y + (row + 0.5) * cell, right[row], size)
        canvas.write(first_x + width + GAP, header_y, sides.right_name, 8.5, colour=MUTED)
    if sides.column_name:
        name_y = first_y - top_height - GAP - panel_title - 11
        canvas.write(first_x, name_y, sides.column_name, 8.5, colour=MUTED)
    _colour_bar(canvas, bar_x, first_y, int(np.clip(height, 70, 220)), maximum)
    return canvas.pixels()


def _above(
    canvas: _Canvas,
    x: float,
    y: float,
    cell: int,
    labels: Sequence[str],
    turned: Sequence[str],
    size: float,
    every: int,
) -> None:
    for column in range(0, len(labels), every):
        middle = x + (column + 0.5) * cell
        if turned[column] == "stacked":
            canvas.write(middle, y - GAP, vertical(labels[column]) or "", size, align="center", base="bottom")
        elif turned[column] == "turned":
            canvas.write(middle, y - GAP, labels[column], size, align="center", base="bottom", angle=90)
        else:
            canvas.write(middle, y - GAP, labels[column], size, align="center", base="bottom")


def _turned(labels: Sequence[str], size: float, room: float) -> list[str]:
    """How each column label stands: all `flat` when all fit; else Japanese `stacked` upright, other words `turned`."""
    if all(_width(label, size) <= room - 4 for label in labels):
        return ["flat"] * len(labels)
    return ["flat" if len(label) == 1 else "stacked" if vertical(label) else "turned" for label in labels]


def _height(label: str, size: float, turned: str) -> float:
    if turned == "turned":
        return _width(label, size)
    lines = (vertical(label) or "").count("\n") + 1 if turned == "stacked" else 1
    return lines * size * POINT * 1.25


def _numbers(
    canvas: _Canvas, x: float, y: float, cell: int, weights: np.ndarray, colours: np.ndarray, causal: bool
) -> None:
    for (row, column), weight in np.ndenumerate(weights):
        if causal and column > row:
            continue
        dark = colours[row, column] @ (0.299, 0.587, 0.114) < 0.6
        colour = PAPER if dark else INK if weight >= 0.005 else MUTED
        canvas.write(
            x + (column + 0.5) * cell, y + (row + 0.5) * cell, _short(weight), cell / 4.6, align="center", colour=colour
        )


def _short(weight: float) -> str:
    """`.42`, `1` or `0`: the leading zero would only cost room."""
    text = f"{weight:.2f}"
    return {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))


def _maximum(panels: Iterable[np.ndarray]) -> float:
    """The largest weight, so that maps over long texts, where every weight is small, still show their shape."""
    largest = max((float(weights[np.isfinite(weights)].max(initial=0)) for weights in panels), default=0.0)
    return largest or 1.0


def _colours(weights: np.ndarray, maximum: float, causal: bool) -> np.ndarray:
    """The colour of each cell [Q,K,3], 0 to 1."""
    colours = SCALE(np.clip(weights.astype(np.float64) / maximum, 0, 1))[:, :, :3]
    colours[~np.isfinite(weights)] = INVALID
    if causal:
        colours[np.triu_indices_from(weights, 1)] = HIDDEN
    return colours


def _blocks(colours: np.ndarray, cell: int) -> np.ndarray:
    """Cells blown up to whole pixels, with a hair of paper between those that can be seen where there is room."""
    blocks = colours.repeat(cell, axis=0).repeat(cell, axis=1)
    if cell >= 8:
        hair = np.where((colours == HIDDEN).all(axis=2, keepdims=True), colours, 1)  # [Q,K,3]
        blocks[cell - 1 :: cell] = hair.repeat(cell, axis=1)
        blocks[:, cell - 1 :: cell] = hair.repeat(cell, axis=0)
    return blocks


def _colour_bar(canvas: _Canvas, x: float, y: float, height: int, maximum: float) -> None:
    ramp = SCALE(np.linspace(1, 0, height))[:, None, :3].repeat(BAR, axis=1)
    canvas.image(x, y, ramp)
    canvas.frame(x, y, BAR, height)
    for share in (0, 0.5, 1):
        canvas.write(x + BAR + 6, y + (1 - share) * height, f"{share * maximum:.2f}", 8.5, colour=MUTED)


class _Canvas:
    """A white page with its origin at the top left, measured in pixels. Writing lies above images."""

    def __init__(self, width: float, height: float) -> None:
        columns, lines = int(np.ceil(width)), int(np.ceil(height))
        self._page = np.full((lines, columns, 3), 255, dtype=np.uint8)
        figure = Figure(figsize=(columns / DPI, lines / DPI), dpi=DPI, facecolor="none")
        self._ink = FigureCanvasAgg(figure)
        self._axes = figure.add_axes((0, 0, 1, 1), xlim=(0, columns), ylim=(lines, 0))
        self._axes.set_axis_off()

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        align: str = "left",
        base: str = "center_baseline",
        colour: str = INK,
        angle: float = 0,
        bold: bool = False,
    ) -> None:
        self._axes.text(
            x,
            y,
            text,
            fontproperties=font(size, bold),
            color=colour,
            ha=align,
            va=base,
            rotation=angle,
            linespacing=1.0,
            parse_math=False,  # a `$` in a token is a dollar, not a formula
        )

    def image(self, x: float, y: float, colours: np.ndarray) -> None:
        """Put `colours` [h,w,3] with the top left corner at x, y: pixel by pixel, which matplotlib's images are not."""
        x, y = round(x), round(y)
        self._page[y : y + len(colours), x : x + colours.shape[1]] = (colours * 255).round()

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        """A line around an image: outside of it at the left and top, over its last pixels at the right and bottom."""
        left, top = round(x) - 0.5, round(y) - 0.5
        edge = Rectangle((left, top), width, height, fill=False, edgecolor=LINE, linewidth=1 / POINT)
        edge.set_snap(False)  # snapping would push the line over the first cells
        self._axes.add_artist(edge)

    def pixels(self) -> np.ndarray:
        """The finished page [h,w,3] uint8."""
        self._ink.draw()
        ink = np.asarray(self._ink.buffer_rgba())  # [h,w,4], colour not premultiplied
        inked = ink[:, :, 3] > 0
        share = ink[inked, 3:] / 255
        self._page[inked] = (ink[inked, :3] * share + self._page[inked] * (1 - share)).round()
        return self._page


_MEASURE = RendererAgg(1, 1, DPI)


@lru_cache(4096)
def _width(text: str, size: float, bold: bool = False) -> float:
    """Pixels a text is wide."""
    return _MEASURE.get_text_width_height_descent(text, font(size, bold), False)[0] if text else 0.0
