"""Define the drawing interface: a page in pixels from the top left, with texts and grids of coloured cells."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from attention_maps.draw.labels import COLOURS, DIVERGED, FUTURE

DPI = 100
POINT = DPI / 72
"""Pixels per typographic point."""

LEADING = 1.25
"""Line spacing relative to the font size."""

INK, MUTED, LINE, PAPER = "#1f2937", "#6b7280", "#cbd5e1", "#ffffff"

Drawing = TypeVar("Drawing", covariant=True)
Align = Literal["left", "center", "right"]


@dataclass
class Text:
    """A text of `size` points, anchored at x, y according to `align` and `base`; may have several lines."""

    x: float
    y: float
    text: str
    size: float
    colour: str = INK
    align: Align = "left"
    base: Literal["center_baseline", "bottom"] = "center_baseline"
    angle: Literal[0, 90] = 0
    bold: bool = False
    """Bold, if the font supports it."""


@dataclass
class Cells:
    """A framed grid with cells of `width` by `height` pixels and its top left corner at x, y."""

    x: float
    y: float
    colours: np.ndarray
    """[rows,columns,3], 0 to 1."""
    hidden: np.ndarray
    """bool [rows,columns]: cells drawn in grey."""
    width: int
    height: int
    gap: int = 0
    """Width in pixels of the white space between cells."""
    hint: Callable[[int, int], str] | None = None
    """Tooltip of a cell, if the surface supports tooltips."""


class Surface(Protocol[Drawing]):
    """A white page, drawn as pixels (`canvas.Canvas`) or SVG (`svg.Svg`). Texts are drawn above cells."""

    def __init__(self, width: float, height: float) -> None:
        """Create an empty page."""

    def write(self, text: Text) -> None:
        """Draw a text."""

    def cells(self, cells: Cells) -> None:
        """Draw a grid."""

    def drawing(self) -> Drawing:
        """Return the finished page."""

    @staticmethod
    def text_width(text: str, size: float, bold: bool = False) -> float:
        """Return the width of a text in pixels."""

    @staticmethod
    def characters() -> Container[str] | None:
        """Return the characters that can be drawn, None for all."""


def colours(shares: np.ndarray | float) -> np.ndarray:
    """Map weights relative to the largest weight to colours [...,3], 0 to 1; NaN becomes `DIVERGED`."""
    stops = np.array([_rgb(colour) for colour in COLOURS])  # [n,3]
    places = np.linspace(0, 1, len(stops))
    mixed = np.stack([np.interp(shares, places, channel) for channel in stops.T], axis=-1)
    return np.where(np.isfinite(shares)[..., None], mixed, _rgb(DIVERGED))


def _rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])


HIDDEN = _rgb(FUTURE)
