"""A white page to draw on in memory, measured in pixels: no window, no pyplot, no global matplotlib state."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attention_maps.draw.fonts import font

DPI = 100
POINT = DPI / 72
"""Pixels of a typographic point."""

INK, MUTED, LINE, PAPER = "#1f2937", "#6b7280", "#cbd5e1", "#ffffff"


class Canvas:
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
        """Write a text of `size` points; `align` and `base` say which point of it lies at x, y."""
        if not text:
            return
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


_RULER = RendererAgg(1, 1, DPI)


@lru_cache(4096)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Pixels that a text is wide."""
    return _RULER.get_text_width_height_descent(text, font(size, bold), False)[0] if text else 0.0
