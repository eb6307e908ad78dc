"""A page to draw on, in pixels from the top left, and what is drawn: texts and grids of coloured cells."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from attention_maps.draw.labels import COLOURS, DIVERGED, FUTURE

DPI = 100
POINT = DPI / 72
"""Pixels of a typographic point."""

LEADING = 1.25
"""From one line of a text to the next, as a share of the font size."""

INK, MUTED, LINE, PAPER = "#1f2937", "#6b7280", "#cbd5e1", "#ffffff"

Drawing = TypeVar("Drawing", covariant=True)


@dataclass
class Text:
    """A text of `size` points; `align` and `base` say which point of it lies at x, y. Lines stand on each other."""

    x: float
    y: float
    text: str
    size: float
    colour: str = INK
    align: Literal["left", "center", "right"] = "left"
    base: Literal["center_baseline", "bottom"] = "center_baseline"
    angle: Literal[0, 90] = 0
    bold: bool = False
    """Where the font has it."""


@dataclass
class Cells:
    """A framed grid of cells of `width` by `height` pixels with its top left corner at x, y."""

    x: float
    y: float
    colours: np.ndarray
    """[rows,columns,3], 0 to 1."""
    width: int
    height: int
    gap: int = 0
    """Pixels left white between cells."""
    hidden: np.ndarray | None = None
    """bool [rows,columns]: cells that are grey instead."""
    hint: Callable[[int, int], str] | None = None
    """The tooltip of a cell, where a surface has tooltips."""


class Surface(Protocol[Drawing]):
    """A white page that becomes a drawing: pixels (`canvas.Canvas`) or SVG (`svg.Svg`). Texts lie above cells."""

    def __init__(self, width: float, height: float) -> None:
        """An empty page."""

    def write(self, text: Text) -> None:
        """Draw a text."""

    def cells(self, cells: Cells) -> None:
        """Draw a grid."""

    def drawing(self) -> Drawing:
        """The finished page."""

    @staticmethod
    def text_width(text: str, size: float, bold: bool = False) -> float:
        """Pixels that a text is wide."""

    @staticmethod
    def characters() -> Container[str] | None:
        """The characters that can be drawn; None: all."""


def colours(shares: np.ndarray | float) -> np.ndarray:
    """Colours [...,3], 0 to 1, of weights as a share of the largest; NaN is the colour of a diverged model."""
    stops = np.array([_rgb(colour) for colour in COLOURS])  # [n,3]
    places = np.linspace(0, 1, len(stops))
    mixed = np.stack([np.interp(shares, places, channel) for channel in stops.T], axis=-1)
    return np.where(np.isfinite(shares)[..., None], mixed, _rgb(DIVERGED))


def _rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])


HIDDEN = _rgb(FUTURE)
