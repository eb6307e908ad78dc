"""Lay out a labelled heat map, to be drawn by a backend (PNG: `canvas`, SVG: `svg`).

All positions are in pixels; labels neither overlap nor are truncated at the border.
Shapes: Q queries (rows), K keys (columns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from attention_maps.draw.labels import hundredths, printable, readable, vertical, visible
from attention_maps.draw.surface import INK, LEADING, MUTED, PAPER, POINT, Align, Cells, Drawing, Surface, Text, colours
from attention_maps.record.recording import Tokens

TITLE, SUBTITLE, PANEL, NAME, LABEL = 13.0, 9.5, 9.5, 8.5, 11.0  # points; labels shrink with the cells
SMALLEST_LABEL = 5.5
NARROW_LABEL = 9.0  # points, on a page of fixed width
GAP, BAR = 7, 13  # pixels: between a label and its map; width of the colour bar
NUMBERED = 30  # minimum cell size in pixels for a number
MOST_ROWS = 24  # on a page of fixed width


@dataclass(frozen=True)
class HeatMap:
    """One map, or several maps of the same tokens on one colour scale, with labels and titles.

    Raises ValueError if weights and labels differ in shape, or if there is nothing to draw.
    """

    panels: Mapping[str, np.ndarray]
    """Weights [Q,K] by panel name; the name of a single panel is not shown."""

    rows: Tokens
    columns: Tokens
    title: str = ""
    subtitle: str = ""
    row_name: str = ""
    column_name: str = ""

    right: Tokens | None = None
    """Second row labels, on the right (for example, the predicted tokens); may be shorter than `rows`."""

    right_name: str = ""

    causal: bool = False
    """Draw the cells above the diagonal in grey."""

    maximum: float | None = None
    """Maximum of the colour scale; default: the largest weight."""

    page_width: int | None = None
    """Fixed page width in pixels: labels keep a legible size, and long maps are truncated."""

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError("no maps to draw")
        if not self.rows or not self.columns:
            raise ValueError("a map without tokens cannot be drawn")
        for name, weights in self.panels.items():
            if weights.shape != (len(self.rows), len(self.columns)):
                labels = f"{len(self.rows)} row and {len(self.columns)} column labels"
                raise ValueError(f"map {name!r} is {list(weights.shape)}, but there are {labels}")

    def draw(self, surface: type[Surface[Drawing]]) -> Drawing:
        """Draw the map on a surface of this class and return the drawing."""
        layout = _Layout(self, surface)
        page = surface(*layout.page)
        layout.draw(page)
        return page.drawing()

    def top(self) -> float:
        """Return the weight of the darkest colour. By default this is the largest weight, because all weights of a long
        text are small; without the first row of a causal map, which is always 1 and would make all others pale."""
        free = slice(1 if self.causal and len(self.rows) > 1 else 0, None)
        counted = [weights[free] for weights in self.panels.values()]
        largest = max(float(weights[np.isfinite(weights)].max(initial=0)) for weights in counted)
        return self.maximum if self.maximum is not None else largest or 1.0

    def beginning(self, rows: int, columns: int) -> HeatMap:
        """Truncate to at most `rows` and `columns`, with a note in the subtitle if anything is dropped."""
        if rows >= len(self.rows) and columns >= len(self.columns):
            return self
        panels = {name: weights[:rows, :columns] for name, weights in self.panels.items()}
        queries, keys = self.rows.first(rows), self.columns.first(columns)
        note = f"first {len(queries)} × {len(keys)} of {len(self.rows)} × {len(self.columns)} tokens"
        shown = replace(self, panels=panels, rows=queries, columns=keys, maximum=self.top())
        return replace(shown, subtitle=f"{self.subtitle} · {note}")


@dataclass(frozen=True)
class _ColumnLabel:
    """A column label and its orientation: Japanese is stacked vertically, other scripts are rotated by 90 degrees."""

    text: str
    orientation: Literal["flat", "stacked", "rotated"]

    def height(self, surface: type[Surface], size: float) -> float:
        """Return the height in pixels."""
        if self.orientation == "rotated":
            return surface.text_width(self.text, size)
        lines = len(vertical(self.text)) if self.orientation == "stacked" else 1
        return lines * size * POINT * LEADING

    def draw(self, page: Surface, middle: float, foot: float, size: float, colour: str) -> None:
        """Draw the label centred at x = `middle`, with its lower end at y = `foot`."""
        text = "\n".join(vertical(self.text)) if self.orientation == "stacked" else self.text
        angle: Literal[0, 90] = 90 if self.orientation == "rotated" else 0
        page.write(Text(middle, foot, text, size, align="center", base="bottom", angle=angle, colour=colour))


class _Layout:
    """Positions of all elements on the page, for a grid of panels of the same tokens."""

    def __init__(self, picture: HeatMap, surface: type[Surface]) -> None:
        self.surface, self.margin = surface, 8 if picture.page_width else 18  # pixels around everything
        panels = len(picture.panels)
        self.size, self.cell, picture = self._cells(picture)
        self.picture = picture
        self.every = int(np.ceil(self.size * POINT * LEADING / self.cell))  # long texts: label every n-th token
        self.left, right = self._labels(picture.rows), self._labels(picture.right)
        self.right = () if picture.page_width else right
        self.top = self._column_labels()
        self.width, self.height = len(self.top) * self.cell, len(self.left) * self.cell
        self.space = max(16, self.cell) if panels > 1 else 0
        self.panel_title = 24 if panels > 1 else 0
        fewest = int(np.ceil(np.sqrt(panels)))
        self.across = min(range(fewest, max(fewest, 2 * fewest - 1) + 1), key=lambda n: (-panels % n, n))  # full rows
        down = -(-panels // self.across)

        self.headings = self._headings()
        self.top_height = max(label.height(surface, self.size) for label in self.top) + GAP
        self.x = self.margin + self._widest(self.left, picture.row_name) + GAP
        self.y = float(self.margin) + sum(height for _, height in self.headings) + 22 * bool(picture.column_name)
        self.y += self.panel_title + self.top_height
        end = self.x + self.across * self.width + (self.across - 1) * self.space
        self.bar_x = end + (GAP + self._widest(self.right, picture.right_name) if self.right else 0) + 26
        titles = max((surface.text_width(line.text, line.size, line.bold) for line, _ in self.headings), default=0)
        map_height = down * self.height + (down - 1) * (self.space + self.panel_title)
        wide = picture.page_width or max(self.bar_x + BAR + 52, self.margin + titles + self.margin)
        self.page = wide, self.y + (map_height if picture.page_width else max(map_height, 72)) + self.margin

    def _cells(self, picture: HeatMap) -> tuple[float, int, HeatMap]:
        """Return label size in points, cell size in pixels, and the map, truncated to fit a page of fixed width."""
        if not picture.page_width:
            largest, room = (46, 1300) if len(picture.panels) == 1 else (26, 420)
            longest = max(len(picture.rows), len(picture.columns))
            cell = int(np.clip(room / longest, 3, largest if longest <= 14 else 0.8 * largest))
            return float(np.clip(cell / (1.65 * POINT), SMALLEST_LABEL, LABEL)), cell, picture
        least = int(np.ceil(NARROW_LABEL * POINT * LEADING))
        texts = picture.row_name, *self._labels(picture.rows)
        widths = [self.surface.text_width(text, NARROW_LABEL) for text in texts]
        square, width = picture.rows == picture.columns, picture.page_width - 2 * self.margin - GAP

        def beside(columns: int) -> tuple[int, int]:
            """Return how many rows to show for this number of columns, and the width in pixels that remains beside the
            row labels."""
            rows = min(columns, MOST_ROWS) if square else MOST_ROWS
            return rows, int(width - max(widths[: 1 + rows]))

        fitting = (columns for columns in range(len(picture.columns), 1, -1) if columns * least <= beside(columns)[1])
        columns = next(fitting, 1)
        rows, pixels = beside(columns)
        return NARROW_LABEL, min(pixels // columns, 40), picture.beginning(rows, columns)

    def _labels(self, tokens: Tokens | None) -> list[str]:
        return [readable(piece, self.surface.characters()) for piece in tokens.pieces] if tokens else []

    def _column_labels(self) -> list[_ColumnLabel]:
        """Orient the column labels: all flat if every label fits; otherwise only single characters are flat."""
        texts = self._labels(self.picture.columns)
        if all(self.surface.text_width(text, self.size) <= self.cell * self.every - 4 for text in texts):
            return [_ColumnLabel(text, "flat") for text in texts]
        return [
            _ColumnLabel(text, "flat" if len(text) == 1 else "stacked" if vertical(text) else "rotated")
            for text in texts
        ]

    def _headings(self) -> list[tuple[Text, int]]:
        """Return the title lines above the map with their heights in pixels; y is relative to the top of each line."""
        picture, known = self.picture, self.surface.characters()
        title, subtitle = printable(picture.title, known), printable(picture.subtitle, known)
        if not picture.page_width:
            large = Text(self.margin, 9, title, TITLE, bold=True)
            small = Text(self.margin, 7, subtitle, SUBTITLE, MUTED)
            return [(line, height) for line, height in ((large, 28), (small, 20)) if line.text]
        lines = []
        for text, colour in ((title, INK), (subtitle, MUTED)):
            line = ""
            for part in filter(None, text.split(" · ")):
                joined = f"{line} · {part}" if line else part
                if line and self.surface.text_width(joined, SUBTITLE) > picture.page_width - 2 * self.margin:
                    lines.append((line, colour))
                    joined = part
                line = joined
            lines.append((line, colour))
        return [(Text(self.margin, 7, line, SUBTITLE, colour), 18) for line, colour in lines if line]

    def _widest(self, labels: Sequence[str], name: str) -> float:
        widths = (self.surface.text_width(label, self.size) for label in labels)
        return max([self.surface.text_width(name, NAME), *widths])

    def draw(self, page: Surface) -> None:
        """Draw all elements on an empty page."""
        picture, y = self.picture, float(self.margin)
        maximum = picture.top()
        for line, height in self.headings:
            page.write(replace(line, y=y + line.y))
            y += height
        above = self.y - self.top_height - self.panel_title - 11
        page.write(Text(self.x, above, picture.column_name, NAME, colour=MUTED))
        page.write(Text(self.x - GAP, self.y - 8, picture.row_name, NAME, align="right", colour=MUTED))
        for number, (name, weights) in enumerate(picture.panels.items()):
            down, across = divmod(number, self.across)
            x = self.x + across * (self.width + self.space)
            y = self.y + down * (self.height + self.space + self.panel_title)
            self._map(page, x, y, weights, maximum)
            if down == 0:
                for column in range(0, len(self.top), self.every):
                    middle, colour = x + (column + 0.5) * self.cell, _ink(picture.columns, column)
                    self.top[column].draw(page, middle, y - GAP, self.size, colour)
            if across == 0:
                self._row_labels(page, x - GAP, y, self.left, picture.rows, "right")
            if len(picture.panels) > 1:
                title = y - 11 - (self.top_height if down == 0 else 0)
                page.write(Text(x, title, name, PANEL, bold=True))
        if picture.right and self.right:
            page.write(Text(self.x + self.width + GAP, self.y - 8, picture.right_name, NAME, colour=MUTED))
            self._row_labels(page, self.x + self.width + GAP, self.y, self.right, picture.right, "left")
        if not picture.page_width:
            self._colour_bar(page, maximum)

    def _row_labels(
        self, page: Surface, x: float, y: float, labels: Sequence[str], tokens: Tokens, align: Align
    ) -> None:
        for row in range(0, len(labels), self.every):
            middle = y + (row + 0.5) * self.cell
            page.write(Text(x, middle, labels[row], self.size, align=align, colour=_ink(tokens, row)))

    def _map(self, page: Surface, x: float, y: float, weights: np.ndarray, maximum: float) -> None:
        picture, cell = self.picture, self.cell
        painted = colours(weights.astype(np.float64) / maximum)
        hidden = np.triu(np.ones(weights.shape, dtype=bool), 1) & picture.causal

        def hint(row: int, column: int) -> str:
            query, key = (visible(tokens.pieces[at]) for tokens, at in ((picture.rows, row), (picture.columns, column)))
            return f"{query} → {key}: {100 * weights[row, column]:.1f} %"

        page.cells(Cells(x, y, painted, hidden, cell, cell, gap=int(cell >= 8), hint=hint))
        if cell < NUMBERED:
            return
        for row, column in np.argwhere(~hidden):
            weight, dark = weights[row, column], painted[row, column] @ (0.299, 0.587, 0.114) < 0.6
            ink = PAPER if dark else INK if weight >= 0.005 else MUTED
            middle = x + (column + 0.5) * cell, y + (row + 0.5) * cell
            page.write(Text(*middle, hundredths(weight), cell / 4.6, align="center", colour=ink))

    def _colour_bar(self, page: Surface, maximum: float) -> None:
        step = 5  # pixels per colour
        count = int(np.clip(self.height, 70, 220)) // step
        none = np.zeros((count, 1), dtype=bool)
        page.cells(Cells(self.bar_x, self.y, colours(np.linspace(1, 0, count))[:, None], none, BAR, step))
        for fraction in (0, 0.5, 1):
            place = self.bar_x + BAR + 6, self.y + (1 - fraction) * count * step
            page.write(Text(*place, f"{fraction * maximum:.2f}", 8.5, colour=MUTED))


def _ink(tokens: Tokens, position: int) -> str:
    return MUTED if tokens.special[position] else INK
