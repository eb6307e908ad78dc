"""Labelled heat maps as images.

Everything is placed in pixels, so that cells are crisp and no label is ever cut or overlaps another.
Shapes: Q queries (rows), K keys (columns).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from attention_maps.draw.canvas import INK, MUTED, PAPER, POINT, Canvas, text_width
from attention_maps.draw.fonts import drawable, has_bold, readable
from attention_maps.draw.labels import COLOURS, DIVERGED, FUTURE, hundredths, vertical

SCALE = LinearSegmentedColormap.from_list("weight", COLOURS)
HIDDEN, INVALID = to_rgb(FUTURE), to_rgb(DIVERGED)

TITLE, SUBTITLE, PANEL, NAME, LABEL = 13.0, 9.5, 9.5, 8.5, 11.0  # points; labels shrink with their cells
SMALLEST_LABEL = 5.5
LEADING = 1.25  # from one line of text to the next
MARGIN, GAP, BAR = 18, 7, 13  # pixels: around all; between a label and its map; width of the colour bar
NUMBERED = 30  # pixels that a cell needs to carry its number


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
    names = _Names(title, subtitle, row_name, column_name, right_name)
    sheet = _Sheet(rows, columns, right, names, panels=1, across=1, cell=_cell(max(weights.shape), 46, 1300))
    return sheet.draw({"": weights}, causal, maximum)


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
    cell = _cell(max(max(weights.shape) for weights in panels.values()), 26, 420)
    names = _Names(title, subtitle, row_name, column_name, "")
    return _Sheet(rows, columns, (), names, len(panels), across, cell).draw(panels, causal, maximum)


def _cell(longest: int, largest: int, room: int) -> int:
    """Pixels of a cell: `largest` for a short text; so much that `longest` of them fill the `room`, but at least 3."""
    return int(np.clip(room / max(longest, 1), 3, largest if longest <= 14 else 0.8 * largest))


@dataclass(frozen=True)
class _Names:
    """What is written besides tokens and numbers."""

    title: str
    subtitle: str
    rows: str
    columns: str
    right: str


@dataclass(frozen=True)
class _ColumnLabel:
    """A label above a map, and how it stands: Japanese stacked downwards, other words turned by 90 degrees."""

    text: str
    stands: Literal["flat", "stacked", "turned"]

    def height(self, size: float) -> float:
        """Pixels from its foot to its head."""
        if self.stands == "turned":
            return text_width(self.text, size)
        lines = len(vertical(self.text)) if self.stands == "stacked" else 1
        return lines * size * POINT * LEADING

    def draw(self, canvas: Canvas, middle: float, foot: float, size: float) -> None:
        """Write it upwards from its foot."""
        text = "\n".join(vertical(self.text)) if self.stands == "stacked" else self.text
        angle = 90 if self.stands == "turned" else 0
        canvas.write(middle, foot, text, size, align="center", base="bottom", angle=angle)


def _column_labels(pieces: Sequence[str], size: float, room: float) -> list[_ColumnLabel]:
    """All flat when each fits into the `room` in pixels; otherwise only single characters are."""
    texts = [readable(piece) for piece in pieces]
    if all(text_width(text, size) <= room - 4 for text in texts):
        return [_ColumnLabel(text, "flat") for text in texts]
    return [
        _ColumnLabel(text, "flat" if len(text) == 1 else "stacked" if vertical(text) else "turned") for text in texts
    ]


class _Sheet:
    """The places of everything on the page, for a grid of panels over the same tokens."""

    def __init__(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        right: Sequence[str],
        names: _Names,
        panels: int,
        across: int,
        cell: int,
    ) -> None:
        if not rows or not columns:
            raise ValueError("a map without tokens cannot be drawn")
        self.names, self.across, self.cell = names, across, cell
        self.title, self.subtitle = drawable(names.title), drawable(names.subtitle)
        self.size = float(np.clip(cell / (1.65 * POINT), SMALLEST_LABEL, LABEL))
        self.every = int(np.ceil(self.size * POINT * LEADING / cell))  # of very long texts every n-th token is named
        self.left = [readable(piece) for piece in rows]
        self.right = [readable(piece) for piece in right]
        self.top = _column_labels(columns, self.size, cell * self.every)

        self.width, self.height = len(columns) * cell, len(rows) * cell
        self.space = max(16, cell) if panels > 1 else 0
        self.panel_title = 24 if panels > 1 else 0
        self.top_height = max(label.height(self.size) for label in self.top) + GAP
        self.x = MARGIN + self._widest(self.left, names.rows) + GAP
        self.y = float(MARGIN) + 28 * bool(self.title) + 20 * bool(self.subtitle) + 22 * bool(names.columns)
        self.y += self.panel_title + self.top_height

        right_width = GAP + self._widest(self.right, names.right) if right else 0
        self.bar_x = self.x + across * self.width + (across - 1) * self.space + right_width + 26
        titles = max(text_width(self.title, TITLE, has_bold(self.title)), text_width(self.subtitle, SUBTITLE))
        down = -(-panels // across)
        grid_height = down * self.height + (down - 1) * (self.space + self.panel_title)
        self.page = max(self.bar_x + BAR + 52, MARGIN + titles + MARGIN), self.y + max(grid_height, 72) + MARGIN

    def _widest(self, labels: Sequence[str], name: str) -> float:
        return max([text_width(name, NAME), *(text_width(label, self.size) for label in labels)])

    def draw(self, panels: Mapping[str, np.ndarray], causal: bool, maximum: float | None) -> np.ndarray:
        """The finished page [h,w,3] uint8."""
        expected = (len(self.left), len(self.top))
        for name, weights in panels.items():
            if weights.shape != expected:
                labels = f"{expected[0]} row and {expected[1]} column labels"
                raise ValueError(f"map {name!r} is {list(weights.shape)}, but there are {labels}")
        maximum = maximum if maximum is not None else _maximum(panels.values())
        canvas = Canvas(*self.page)
        self._headings(canvas)
        for number, (name, weights) in enumerate(panels.items()):
            across, down = number % self.across, number // self.across
            x = self.x + across * (self.width + self.space)
            y = self.y + down * (self.height + self.space + self.panel_title)
            self._map(canvas, x, y, weights, causal, maximum)
            if down == 0:
                for column in range(0, len(self.top), self.every):
                    self.top[column].draw(canvas, x + (column + 0.5) * self.cell, y - GAP, self.size)
            if across == 0:
                self._row_labels(canvas, x - GAP, y, self.left, "right")
            canvas.write(x, y - 11 - (self.top_height if down == 0 else 0), name, PANEL, bold=has_bold(name))
        self._row_labels(canvas, self.x + self.width + GAP, self.y, self.right, "left")
        _colour_bar(canvas, self.bar_x, self.y, int(np.clip(self.height, 70, 220)), maximum)
        return canvas.pixels()

    def _headings(self, canvas: Canvas) -> None:
        canvas.write(MARGIN, MARGIN + 9, self.title, TITLE, bold=has_bold(self.title))
        canvas.write(MARGIN, MARGIN + 28 * bool(self.title) + 7, self.subtitle, SUBTITLE, colour=MUTED)
        above_columns = self.y - self.top_height - self.panel_title - 11
        canvas.write(self.x, above_columns, self.names.columns, NAME, colour=MUTED)
        canvas.write(self.x - GAP, self.y - 8, self.names.rows, NAME, align="right", colour=MUTED)
        if self.right:
            canvas.write(self.x + self.width + GAP, self.y - 8, self.names.right, NAME, colour=MUTED)

    def _row_labels(self, canvas: Canvas, x: float, y: float, labels: Sequence[str], align: str) -> None:
        for row in range(0, len(labels), self.every):
            canvas.write(x, y + (row + 0.5) * self.cell, labels[row], self.size, align=align)

    def _map(self, canvas: Canvas, x: float, y: float, weights: np.ndarray, causal: bool, maximum: float) -> None:
        colours = _colours(weights, maximum, causal)
        canvas.image(x, y, _blocks(colours, self.cell))
        canvas.frame(x, y, self.width, self.height)
        if self.cell >= NUMBERED:
            _numbers(canvas, x, y, self.cell, weights, colours, causal)


def _numbers(
    canvas: Canvas, x: float, y: float, cell: int, weights: np.ndarray, colours: np.ndarray, causal: bool
) -> None:
    for (row, column), weight in np.ndenumerate(weights):
        if causal and column > row:
            continue
        dark = colours[row, column] @ (0.299, 0.587, 0.114) < 0.6
        colour = PAPER if dark else INK if weight >= 0.005 else MUTED
        canvas.write(
            x + (column + 0.5) * cell,
            y + (row + 0.5) * cell,
            hundredths(weight),
            cell / 4.6,
            align="center",
            colour=colour,
        )


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


def _colour_bar(canvas: Canvas, x: float, y: float, height: int, maximum: float) -> None:
    ramp = SCALE(np.linspace(1, 0, height))[:, None, :3].repeat(BAR, axis=1)
    canvas.image(x, y, ramp)
    canvas.frame(x, y, BAR, height)
    for share in (0, 0.5, 1):
        canvas.write(x + BAR + 6, y + (1 - share) * height, f"{share * maximum:.2f}", 8.5, colour=MUTED)
