"""Draw heat maps as pixels with matplotlib, in memory: no window, no pyplot, no global matplotlib state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attention_maps.draw import fonts
from attention_maps.draw.heat_map import HeatMap
from attention_maps.draw.surface import DPI, HIDDEN, LINE, POINT, Cells, Text
from attention_maps.record.recording import tokens


class Canvas:
    """A pixel page; text is drawn above cells. See `Surface`."""

    def __init__(self, width: float, height: float) -> None:
        columns, lines = int(np.ceil(width)), int(np.ceil(height))
        self._page = np.full((lines, columns, 3), 255, dtype=np.uint8)
        # Before 3.11, matplotlib truncates: 4.31 inches have 430 pixels, because 4.31 * 100 is less than 431.
        inches = (math.nextafter(columns / DPI, math.inf), math.nextafter(lines / DPI, math.inf))
        figure = Figure(figsize=inches, dpi=DPI, facecolor="none")
        self._ink = FigureCanvasAgg(figure)
        self._axes = figure.add_axes((0, 0, 1, 1), xlim=(0, columns), ylim=(lines, 0))
        self._axes.set_axis_off()

    def write(self, text: Text) -> None:
        """Draw a text; `$` is a literal dollar sign, not a formula."""
        if text.text:
            font = fonts.font(text.size, text.bold and fonts.has_bold(text.text))
            place = {"ha": text.align, "va": text.base, "rotation": text.angle, "linespacing": 1.0}
            style: dict[str, Any] = place | {"fontproperties": font, "color": text.colour, "parse_math": False}
            self._axes.text(text.x, text.y, text.text, **style)

    def cells(self, cells: Cells) -> None:
        """Draw a grid with exact pixel edges, unlike matplotlib's images; tooltips are not supported."""
        x, y, width, height = round(cells.x), round(cells.y), cells.width, cells.height
        colours = np.where(cells.hidden[..., None], HIDDEN, cells.colours)
        blocks = colours.repeat(height, axis=0).repeat(width, axis=1)
        if cells.gap:
            between = np.where(cells.hidden[..., None], colours, 1)  # [rows,columns,3]
            blocks[height - 1 :: height] = between.repeat(width, axis=1)
            blocks[:, width - 1 :: width] = between.repeat(height, axis=0)
        self._page[y : y + len(blocks), x : x + blocks.shape[1]] = (blocks * 255).round()
        # The frame is outside the cells at the left and top, and covers their last pixels at the right and bottom.
        edge = Rectangle((x - 0.5, y - 0.5), blocks.shape[1], len(blocks), fill=False, ec=LINE, lw=1 / POINT)
        edge.set_snap(False)  # snapping would move the line over the first cells
        self._axes.add_artist(edge)

    def drawing(self) -> np.ndarray:
        """Return the finished page [h,w,3] uint8."""
        self._ink.draw()
        ink = np.asarray(self._ink.buffer_rgba())  # [h,w,4], colour not premultiplied
        inked = ink[:, :, 3] > 0
        alpha = ink[inked, 3:] / 255
        self._page[inked] = (ink[inked, :3] * alpha + self._page[inked] * (1 - alpha)).round()
        return self._page

    @staticmethod
    def text_width(text: str, size: float, bold: bool = False) -> float:
        """Return the width of a text in pixels."""
        return _width(text, size, bold) if text else 0.0

    @staticmethod
    def characters() -> frozenset[str]:
        """Return the characters of the fonts bundled with matplotlib and matplotlib_fontja."""
        return fonts.characters()


_RULER = RendererAgg(1, 1, DPI)


@lru_cache(4096)
def _width(text: str, size: float, bold: bool) -> float:
    return _RULER.get_text_width_height_descent(text, fonts.font(size, bold and fonts.has_bold(text)), False)[0]


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
    return HeatMap(panels, queries, keys, title, **more).draw(Canvas)
