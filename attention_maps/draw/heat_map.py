"""Draw labelled heat maps with matplotlib, in memory: no window, no pyplot, and no settings changed for others.

Shapes: Q queries (rows), K keys (columns).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from attention_maps.draw import fonts
from attention_maps.draw.labels import COLOURS, DIVERGED, FUTURE, hundredths, is_japanese, printable, readable, vertical
from attention_maps.record.recording import Tokens, tokens

DPI = 100
POINT = DPI / 72
"""Pixels per typographic point."""

INK, MUTED, LINE, PAPER = "#1f2937", "#6b7280", "#cbd5e1", "#ffffff"
TITLE, SUBTITLE, NAME, LABEL = 13.0, 9.5, 8.5, 11.0  # points; labels shrink with the cells
SMALLEST_LABEL = 5.5
NUMBERED = 30  # smallest cell in pixels for a number
NARROW_LABEL, NARROW_CELL, NARROW_MARGIN, MOST_ROWS = 9.0, 16, 8, 24  # points, pixels, rows: on a page of fixed width
MARGIN, GAP = 16, 7  # pixels: around everything, between a label and its map
LEADING = 1.25
"""Line spacing relative to the font size."""

SCALE = LinearSegmentedColormap.from_list("attention", COLOURS).with_extremes(bad=DIVERGED)
"""Colours of weights from 0 to the largest; NaN, of a diverged model, is red."""


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
        part = replace(self, panels=panels, rows=queries, columns=keys, maximum=self.top())
        return replace(part, subtitle=f"{self.subtitle} · {note}")

    def pixels(self) -> np.ndarray:
        """Return the picture [h,w,3] uint8."""
        return np.array(Image.open(io.BytesIO(self.png())).convert("RGB"))

    def png(self) -> bytes:
        """Return the picture as a PNG file."""
        return saved(*self._page(), "png")

    def svg(self) -> str:
        """Return the picture as an SVG file, whose texts are texts."""
        return saved(*self._page(), "svg").decode()

    def _page(self) -> tuple[Figure, Bbox]:
        """Return the figure and the part of it that is the page, in inches."""
        if not self.page_width:
            largest, room = (46, 1300) if len(self.panels) == 1 else (26, 420)
            longest = max(len(self.rows), len(self.columns))
            cell = int(np.clip(room / longest, 3, largest if longest <= 14 else 0.8 * largest))
            return self._drawn(cell, float(np.clip(cell / (1.65 * POINT), SMALLEST_LABEL, LABEL)))
        names = (self.row_name, *_names(self.rows)[:MOST_ROWS])
        room = int(self.page_width - max(_width(name, NARROW_LABEL) for name in names) - GAP - 2 * NARROW_MARGIN)
        columns = max(1, min(len(self.columns), room // NARROW_CELL))
        part = self.beginning(min(columns, MOST_ROWS) if self.rows == self.columns else MOST_ROWS, columns)
        figure, page = replace(part, right=None)._drawn(min(40, room // len(part.columns)), NARROW_LABEL)
        return figure, Bbox.from_bounds(page.x0, page.y0, (self.page_width + 1e-6) / DPI, page.height)

    def _drawn(self, cell: int, size: float) -> tuple[Figure, Bbox]:
        """Draw maps with cells of `cell` pixels and labels of `size` points; return figure and page."""
        count = len(self.panels)
        fewest = int(np.ceil(np.sqrt(count)))
        across = min(range(fewest, max(fewest, 2 * fewest - 1) + 1), key=lambda n: (-count % n, n))  # full rows
        down = -(-count // across)
        width, height = len(self.columns) * cell, len(self.rows) * cell
        space, heading = (max(16, cell), 24) if count > 1 else (0, 0)
        whole = across * (width + space) - space, down * (height + space + heading) - space - heading
        figure = Figure(figsize=(whole[0] / DPI, whole[1] / DPI), dpi=DPI, facecolor=PAPER)
        norm = Normalize(0, self.top())
        for number, (name, weights) in enumerate(self.panels.items()):
            row, column = divmod(number, across)
            left, top = column * (width + space), row * (height + space + heading)
            axes = figure.add_axes(_in_pixels(whole, left, top, width, height))
            self._draw_map(axes, weights, norm, cell)
            above = self._draw_column_labels(axes, size, cell, named=column == 0) if row == 0 else GAP
            if column == 0:
                self._draw_row_labels(axes, size, cell)
            if count > 1:
                font = fonts.font(SUBTITLE, fonts.has_bold(name))
                axes.text(0, -above / cell, name, va="bottom", fontproperties=font, color=INK)
        figure.draw_without_rendering()
        box = figure.get_tightbbox()  # of the maps with their labels
        right, upper = self._draw_titles(figure, box)
        lower = box.y0
        if not self.page_width:
            bar_height = int(np.clip(height, 70, 220))
            bar = figure.add_axes(_in_pixels(whole, box.x1 * DPI + 26, 0, 13, bar_height))
            self._draw_scale(bar, norm)
            right, lower = max(right, box.x1 + 76 / DPI), min(lower, (whole[1] - bar_height - GAP) / DPI)
        margin = NARROW_MARGIN if self.page_width else MARGIN
        return figure, _with_margin(Bbox.from_extents(box.x0, lower, right, upper), margin)

    def _draw_map(self, axes: Axes, weights: np.ndarray, norm: Normalize, cell: int) -> None:
        colours = SCALE(norm(weights.astype(np.float64)))  # [Q,K,4]
        hidden = np.triu(np.ones(weights.shape, dtype=bool), 1) & self.causal
        colours[hidden] = to_rgba(FUTURE)
        rows, columns = weights.shape
        axes.imshow(colours, aspect="auto", interpolation="none", extent=(0, columns, rows, 0))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(color=LINE, linewidth=1 / POINT)
        if cell >= 8:
            gaps: dict[str, Any] = {"color": PAPER, "lw": 1 / POINT, "antialiased": False}
            axes.hlines(range(1, rows), 0, columns, **gaps)
            axes.vlines(range(1, columns), 0, rows, **gaps)
        if cell < NUMBERED:
            return
        for row, column in np.argwhere(~hidden):
            weight, dark = weights[row, column], colours[row, column, :3] @ (0.299, 0.587, 0.114) < 0.6
            ink = PAPER if dark else INK if weight >= 0.005 else MUTED
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": ink}
            axes.text(column + 0.5, row + 0.5, hundredths(weight), fontproperties=fonts.font(cell / 4.6), **style)

    def _draw_row_labels(self, axes: Axes, size: float, cell: int) -> None:
        """Write tokens left and right of a map, and what they are; in a long text only every n-th."""
        gap = GAP / cell
        sides: list[tuple[Tokens | None, str, float, Literal["left", "right"]]] = [
            (self.rows, self.row_name, -gap, "right"),
            (self.right, self.right_name, len(self.columns) + gap, "left"),
        ]
        for labels, name, x, align in sides:
            if labels is None:
                continue
            texts = _names(labels)
            for place in range(0, len(texts), _every(size, cell)):
                style: dict[str, Any] = {"color": _ink(labels, place), "parse_math": False, "va": "center_baseline"}
                axes.text(x, place + 0.5, texts[place], ha=align, fontproperties=fonts.font(size), **style)
            axes.text(x, -gap, name, ha=align, va="bottom", fontproperties=fonts.font(NAME), color=MUTED)

    def _draw_column_labels(self, axes: Axes, size: float, cell: int, *, named: bool) -> float:
        """Write tokens above a map: Japanese is stacked, other scripts are turned, unless everything fits as it is;
        return how much space this takes, in pixels."""
        texts, every, gap = _names(self.columns), _every(size, cell), GAP / cell
        flat = all(_width(text, size) <= cell * every - 4 for text in texts)
        tallest = 0.0
        for place in range(0, len(texts), every):
            upright = [texts[place]] if flat or len(texts[place]) == 1 else vertical(texts[place])
            style: dict[str, Any] = {"color": _ink(self.columns, place), "parse_math": False, "linespacing": 1.0}
            text, angle = ("\n".join(upright), 0) if upright else (texts[place], 90)
            place_of: dict[str, Any] = {"ha": "center", "va": "bottom", "rotation": angle}
            axes.text(place + 0.5, -gap, text, fontproperties=fonts.font(size), **place_of, **style)
            lines = len(upright) * size * POINT * LEADING
            tallest = max(tallest, lines if upright else _width(text, size))
        tallest += GAP
        if self.column_name:
            text = self.column_name if named else ""
            axes.text(0, -(tallest + GAP) / cell, text, fontproperties=fonts.font(NAME), color=MUTED)
            tallest += GAP + NAME * POINT * LEADING
        return tallest + GAP

    def _draw_scale(self, axes: Axes, norm: Normalize) -> None:
        axes.imshow(np.linspace(1, 0, 256)[:, None], SCALE, aspect="auto", extent=(0, 1, 0, 1))
        axes.yaxis.tick_right()
        axes.set_xticks([])
        axes.set_yticks([0, 0.5, 1], [f"{fraction * float(norm.vmax or 1):.2f}" for fraction in (0, 0.5, 1)])
        axes.tick_params(length=0, pad=4, labelcolor=MUTED, labelsize=NAME)
        axes.spines[:].set(color=LINE, linewidth=1 / POINT)

    def _draw_titles(self, figure: Figure, box: Bbox) -> tuple[float, float]:
        """Write title and subtitle above the maps, on a page of fixed width in lines that end between two parts; return
        the right and the upper end of everything, in inches."""
        parts: list[tuple[str, float, str]] = [(self.title, TITLE, INK), (self.subtitle, SUBTITLE, MUTED)]
        if self.page_width:
            room = self.page_width - 2 * NARROW_MARGIN
            parts = [(line, SUBTITLE, colour) for text, _, colour in parts for line in _lines(text, SUBTITLE, room)]
        right, y = box.x1, box.y1 + 10 / DPI
        for text, size, colour in reversed(parts):
            text = printable(text, fonts.characters())
            if text:
                font = fonts.font(size, size == TITLE and fonts.has_bold(text))
                x, up = figure.transFigure.inverted().transform(figure.dpi_scale_trans.transform((box.x0, y)))
                line = figure.text(x, up, text, fontproperties=font, color=colour, va="bottom", parse_math=False)
                right = right if self.page_width else max(right, line.get_window_extent().x1 / DPI)
                y += (size * POINT + 7) / DPI
        return right, y


def heat_map(
    weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str = "", subtitle: str = "", **more: Any
) -> np.ndarray:
    """Draw one map [Q,K] with row and column labels as an RGB image [h,w,3] uint8; `more`: fields of `HeatMap`."""
    return small_multiples({"": weights}, rows, columns, title, subtitle=subtitle, **more)


def small_multiples(
    panels: Mapping[str, np.ndarray], rows: Sequence[str], columns: Sequence[str], title: str = "", **more: Any
) -> np.ndarray:
    """Draw maps [Q,K] of the same tokens side by side as an RGB image [h,w,3] uint8; `more`: fields of `HeatMap`."""
    queries, keys = (tokens(range(len(pieces)), pieces, frozenset()) for pieces in (rows, columns))
    return HeatMap(panels, queries, keys, title, **more).pixels()


def saved(figure: Figure, page: Bbox, form: str) -> bytes:
    """Return a page of a figure as a file: png or svg."""
    file = io.BytesIO()
    # Texts of an SVG stay texts; without date and random names, equal maps make equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "attention"}):
        metadata: dict[str, Any] = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(file, format=form, dpi=DPI, bbox_inches=page, metadata=metadata)
    content = file.getvalue()
    if form == "svg" and is_japanese(content.decode()):  # Han characters get their Japanese form
        content = content.replace(b"<svg ", b'<svg lang="ja" xml:lang="ja" ', 1)
    return content


def colours(share: float) -> np.ndarray:
    """Return the colour [3], 0 to 1, of a weight relative to the largest one."""
    return np.array(SCALE(np.ma.masked_invalid([float(share)]))[0, :3])


def _in_pixels(
    whole: tuple[int, int], left: float, top: float, width: float, height: float
) -> tuple[float, float, float, float]:
    """Return a rectangle, in pixels from the top left of a figure, as matplotlib's fractions from the bottom left."""
    return left / whole[0], 1 - (top + height) / whole[1], width / whole[0], height / whole[1]


def _with_margin(box: Bbox, margin: int) -> Bbox:
    """Return a page around a rectangle, in inches; its edges are those of pixels, as are the edges of the cells."""
    x0, y0 = (np.floor(side * DPI - margin) / DPI for side in (box.x0, box.y0))
    x1, y1 = (np.ceil(side * DPI + margin) / DPI for side in (box.x1, box.y1))
    return Bbox.from_extents(x0, y0, x1, y1)


def _names(tokens: Tokens) -> list[str]:
    return [readable(piece, fonts.characters()) for piece in tokens.pieces]


def _ink(tokens: Tokens, place: int) -> str:
    return MUTED if tokens.special[place] else INK


def _every(size: float, cell: int) -> int:
    """Return n, if there is room for every n-th label."""
    return int(np.ceil(size * POINT * LEADING / cell))


_RULER = RendererAgg(1, 1, DPI)


@lru_cache(4096)
def _width(text: str, size: float) -> float:
    """Return the width of a text in pixels."""
    return _RULER.get_text_width_height_descent(text, fonts.font(size), False)[0]


def _lines(text: str, size: float, room: float) -> list[str]:
    """Break a text between parts that are separated by ` · `."""
    lines = [""]
    for part in filter(None, text.split(" · ")):
        joined = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and _width(joined, size) > room:
            lines.append(part)
        else:
            lines[-1] = joined
    return lines
