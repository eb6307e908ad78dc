"""Draw heat maps as SVG text for browsers and Inkscape.

The viewer chooses the fonts, so positions are computed from approximate character widths with some margin.
"""

from __future__ import annotations

from html import escape

import numpy as np

from attention_maps.draw import labels
from attention_maps.draw.surface import INK, LEADING, LINE, PAPER, POINT, Cells, Text

FONTS = "system-ui,'Hiragino Sans','Yu Gothic','Noto Sans CJK JP','Noto Sans JP',Meiryo,sans-serif"
ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
BASELINE = 0.36
"""Distance from the middle of a line to its baseline, relative to the font size."""


class Svg:
    """A page of SVG elements. See `Surface`."""

    def __init__(self, width: float, height: float) -> None:
        size = f"{np.ceil(width):g}", f"{np.ceil(height):g}"
        self._size = 'width="{0}" height="{1}" viewBox="0 0 {0} {1}"'.format(*size)
        self._parts: list[str] = []
        self._texts = ""

    def write(self, text: Text) -> None:
        """Draw a text."""
        if not text.text:
            return
        self._texts += text.text
        size, x = text.size * POINT, text.x
        style = f' font-size="{size:.3g}"' + f' fill="{text.colour}"' * (text.colour != INK)
        style += ' font-weight="600"' * text.bold + ANCHORS[text.align] * (not text.angle)
        y = text.y + (BASELINE * size if text.base == "center_baseline" else -0.2 * size)
        lines = [_safe(line) for line in text.text.split("\n")]
        if text.angle:
            place = f'transform="translate({x + BASELINE * size:.6g} {text.y:.6g}) rotate(-90)"'
        else:
            place = f'x="{x:.6g}" y="{y:.6g}"'
        if len(lines) > 1:
            heights = range(len(lines) - 1, -1, -1)
            feet = [f'x="{x:.6g}" y="{y - height * size * LEADING:.6g}"' for height in heights]
            lines = [f"<tspan {foot}>{line}</tspan>" for foot, line in zip(feet, lines, strict=True)]
        self._parts.append(f"<text {place}{style}>{''.join(lines)}</text>")

    def cells(self, cells: Cells) -> None:
        """Draw a rectangle for every cell that is not hidden."""
        x, y = round(cells.x), round(cells.y)  # whole pixels: otherwise viewers blend neighbouring cells
        rows, columns = cells.hidden.shape
        frame = f'fill="{labels.FUTURE if cells.hidden.any() else PAPER}" stroke="{LINE}"'
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{columns * cells.width}" height="{rows * cells.height}" {frame}/>'
        )
        size = f'width="{cells.width - cells.gap}" height="{cells.height - cells.gap}"'
        codes = (cells.colours * 255).round().astype(int)
        for row, column in np.argwhere(~cells.hidden):
            place = f'x="{x + column * cells.width}" y="{y + row * cells.height}"'
            fill = "#{:02x}{:02x}{:02x}".format(*codes[row, column])
            end = f"><title>{_safe(cells.hint(row, column))}</title></rect>" if cells.hint else "/>"
            self._parts.append(f'<rect {place} {size} fill="{fill}"{end}')

    def curve(self, start: tuple[float, float], end: tuple[float, float], colour: str, share: float, hint: str) -> None:
        """Draw a curve between two points with a tooltip; width and opacity grow with `share`, 0 to 1."""
        (a, b), (c, d), middle = start, end, (start[0] + end[0]) / 2
        ink = f'stroke="{colour}" stroke-width="{0.5 + 5 * share:.2f}" stroke-opacity="{0.1 + 0.9 * share:.2f}"'
        path = f"M{a:g} {b:g}C{middle:g} {b:g} {middle:g} {d:g} {c:g} {d:g}"
        self._parts.append(f'<path d="{path}" fill="none" {ink}><title>{_safe(hint)}</title></path>')

    def drawing(self) -> str:
        """Return the finished page. Pages with kana are tagged as Japanese, so that Han characters get their Japanese
        form."""
        language = ' lang="ja" xml:lang="ja"' if labels.is_japanese(self._texts) else ""
        style = f'font-family="{FONTS}" fill="{INK}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {self._size} {style}{language}>'
        paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, paper, *self._parts, "</svg>", ""])

    @staticmethod
    def text_width(text: str, size: float, bold: bool = False) -> float:
        """Return the approximate width of a text in pixels."""
        return sum(1.0 if labels.is_wide(letter) else 0.6 for letter in text) * size * POINT

    @staticmethod
    def characters() -> None:
        """Return None: the viewer's fonts cover all characters."""


def _safe(text: str) -> str:
    """Escape a text for XML and replace lone surrogates and control characters."""
    return escape("".join(c if c.isprintable() else "�" for c in text))
