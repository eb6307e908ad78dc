"""Maps as SVG text that browsers and Inkscape open alike: a heat map with numbers, or lines between two columns of
tokens.

The fonts are the reader's own, so places are computed from rough widths of characters and leave some room.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from attention_maps.ask.questions import Question
from attention_maps.draw.labels import (
    COLOURS,
    DIVERGED,
    FUTURE,
    hundredths,
    is_japanese,
    is_wide,
    readable,
    vertical,
    visible,
)
from attention_maps.record.recording import Tokens

LINE = "#1f5fc4"
"""The colour of links."""

STYLE = """text{font-family:system-ui,"Hiragino Sans","Yu Gothic","Noto Sans CJK JP","Noto Sans JP",Meiryo,sans-serif;fill:#1f2937}
.title{font-size:14px;font-weight:600}.name,.special{fill:#6b7280}.name{font-size:11px}.number{text-anchor:middle}"""  # noqa: E501

MARGIN, GAP, LEADING = 16, 6, 1.15
TOP = MARGIN + 56  # where "attends to" stands
NUMBERED = 24  # pixels that a cell needs to carry its number


def heat_map(question: Question) -> str:
    """One map with a label on every row and column; a decoder's rows are named on both sides."""
    weights, chosen = question.matrix, question.chosen
    cell = int(np.clip(1300 / max(weights.shape), 9, 34))
    size = min(13.0, 0.72 * cell)
    rows, columns = question.queries, question.keys
    both = question.kind != "encoder"
    right = (chosen.predicts if question.rows == "reads" else chosen.reads) if both else None
    stacked = not all(_length(readable(piece), size) <= cell - 4 for piece in columns.pieces)
    x = MARGIN + max(_widest(rows, size), _length(question.rows, 11)) + GAP
    y = TOP + GAP + max(_height(readable(piece), size, stacked) for piece in columns.pieces) + GAP
    width, height = cell * len(columns), cell * len(weights)
    other = "predicts" if question.rows == "reads" else "reads"
    right_width = GAP + max(_widest(right, size), _length(other, 11)) if right else 0
    page = max(x + width + right_width, _titles_width(question)) + MARGIN

    maximum = float(np.nanmax(weights, initial=0)) or 1.0
    parts = _titles(question)
    parts.append(_text(x, TOP, "attends to", "name"))
    parts.append(_text(x - GAP, y - 8, question.rows, "name", "end"))
    parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{height}" fill="{FUTURE}"/>')
    for (row, column), weight in np.ndenumerate(weights):
        if question.kind == "decoder" and column > row:
            continue
        told = f"{visible(rows.pieces[row])} → {visible(columns.pieces[column])}: {100 * weight:.1f} %"
        place = f'x="{x + column * cell:g}" y="{y + row * cell:g}"'
        fill = colour(weight / maximum)
        rect = f'<rect {place} width="{cell - 1}" height="{cell - 1}" fill="{fill}"><title>{_safe(told)}</title></rect>'
        parts.append(rect)
        if cell >= NUMBERED:
            middle = x + (column + 0.5) * cell - 0.5, y + (row + 0.5) * cell + 0.12 * cell
            ink = "#ffffff" if weight / maximum > 0.5 else "#1f2937" if weight >= 0.005 else "#6b7280"
            parts.append(_text(*middle, hundredths(weight), "number", size=cell / 3.1, style=f"fill:{ink}"))
    parts += _side(rows, x - GAP, y, cell, size, "end")
    if right:
        parts.append(_text(x + width + GAP, y - 8, other, "name"))
        parts += _side(right, x + width + GAP, y, cell, size, "start")
    parts += _top(columns, x, y - GAP, cell, size, stacked)
    return _page(page, y + height + MARGIN, question.subject, parts)


def lines(question: Question, top: int = 3) -> str:
    """Queries on the left, keys on the right, and the `top` strongest links of each query: width and opacity
    by weight."""
    weights, rows, columns = question.matrix, question.queries, question.keys
    step, size, across = 22, 13.0, 190
    left = MARGIN + _widest(rows, size) + GAP
    right, y = left + across, TOP + GAP
    parts = _titles(question)
    parts.append(_text(left - GAP, TOP, question.rows, "name", "end"))
    parts.append(_text(right + GAP, TOP, "attends to", "name"))
    strongest = np.argsort(-weights, axis=1, kind="stable")[:, :top]  # [Q,top]
    for (row, _), column in np.ndenumerate(strongest):
        weight = float(weights[row, column])
        if not weight > 0:
            continue
        told = f"{visible(rows.pieces[row])} → {visible(columns.pieces[column])}: {100 * weight:.1f} %"
        a, b, middle = y + (row + 0.5) * step, y + (column + 0.5) * step, (left + right) / 2
        path = f"M{left:g} {a:g}C{middle:g} {a:g} {middle:g} {b:g} {right:g} {b:g}"
        ink = (
            f'fill="none" stroke="{LINE}" stroke-width="{0.5 + 5 * weight:.2f}"'
            f' stroke-opacity="{0.1 + 0.9 * weight:.2f}"'
        )
        parts.append(f'<path d="{path}" {ink}><title>{_safe(told)}</title></path>')
    parts += _side(rows, left - GAP, y, step, size, "end")
    parts += _side(columns, right + GAP, y, step, size, "start")
    page = max(right + GAP + _widest(columns, size), _titles_width(question)) + MARGIN
    return _page(page, y + step * max(weights.shape) + MARGIN, question.subject, parts)


def _titles(question: Question) -> list[str]:
    return [_text(MARGIN, MARGIN + 13, question.subject, "title"), _text(MARGIN, MARGIN + 31, question.origin, "name")]


def _titles_width(question: Question) -> float:
    return MARGIN + max(_length(question.subject, 14), _length(question.origin, 11))


def _page(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    size = (
        f'width="{np.ceil(width):g}" height="{np.ceil(height):g}" viewBox="0 0 {np.ceil(width):g} {np.ceil(height):g}"'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{_safe(title)}</title>\n<style>{STYLE}</style>'
    paper = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, paper, *parts, "</svg>", ""])


def _side(tokens: Tokens, x: float, y: float, cell: int, size: float, anchor: str) -> list[str]:
    """The labels of rows, one under the other."""
    labels = (
        _text(x, y + (row + 0.5) * cell + 0.36 * size, readable(piece), _class(tokens, row), anchor, size=size)
        for row, piece in enumerate(tokens.pieces)
    )
    return [f"<g{_language(tokens)}>", *labels, "</g>"]


def _top(tokens: Tokens, x: float, foot: float, cell: int, size: float, stacked: bool) -> list[str]:
    """The labels of columns, upwards from their foot: Japanese downwards letter by letter, other words turned."""
    parts = [f"<g{_language(tokens)}>"]
    for column, piece in enumerate(tokens.pieces):
        label, middle, kind = readable(piece), x + (column + 0.5) * cell, _class(tokens, column)
        if not stacked or len(label) == 1:
            parts.append(_text(middle, foot, label, kind, "middle", size=size))
        elif letters := vertical(label):
            first = foot - (len(letters) - 1) * size * LEADING
            spans = "".join(
                f'<tspan x="{middle:g}" y="{first + number * size * LEADING:g}">{_safe(letter)}</tspan>'
                for number, letter in enumerate(letters)
            )
            parts.append(f'<text class="{kind}" font-size="{size:g}" text-anchor="middle">{spans}</text>')
        else:
            place = f"translate({middle + 0.36 * size:g} {foot:g}) rotate(-90)"
            text = f'<text class="{kind}" font-size="{size:g}" transform="{place}">{_safe(label)}</text>'
            parts.append(text)
    return [*parts, "</g>"]


def _text(
    x: float, y: float, text: str, kind: str, anchor: str = "", *, size: float | None = None, style: str = ""
) -> str:
    attributes = f' text-anchor="{anchor}"' if anchor and anchor != "start" else ""
    attributes += f' font-size="{size:g}"' if size else ""
    attributes += f' style="{style}"' if style else ""
    attributes += f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    """Text for XML, which no lone surrogate and no control character may enter."""
    return escape("".join(c if c.isprintable() else "�" for c in text))


def _class(tokens: Tokens, position: int) -> str:
    return "special" if tokens.special[position] else ""


def _language(tokens: Tokens) -> str:
    return ' lang="ja" xml:lang="ja"' if is_japanese("".join(tokens.pieces)) else ""


def _length(text: str, size: float) -> float:
    """Pixels that a text takes, about."""
    return sum(1.0 if is_wide(letter) else 0.6 for letter in text) * size


def _widest(tokens: Tokens, size: float) -> float:
    return max(_length(readable(piece), size) for piece in tokens.pieces)


def _height(label: str, size: float, stacked: bool) -> float:
    if not stacked or len(label) == 1:
        return size
    letters = vertical(label)
    return len(letters) * size * LEADING if letters else _length(label, size)


def colour(share: float) -> str:
    """The colour of a weight as a share of the largest."""
    if not np.isfinite(share):
        return DIVERGED
    place = float(np.clip(share, 0, 1)) * (len(COLOURS) - 1)
    low = min(int(place), len(COLOURS) - 2)
    mixed = (
        round(
            int(COLOURS[low][at : at + 2], 16) * (low + 1 - place)
            + int(COLOURS[low + 1][at : at + 2], 16) * (place - low)
        )
        for at in (1, 3, 5)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
