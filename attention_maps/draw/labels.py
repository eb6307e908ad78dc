"""Format token labels for terminals and images, measure their widths, and define the colours of weights.

Standard library only, so that printing a table does not import a plotting library.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

SPACES = {" ": "␣", "\n": "↵", "\t": "⇥", "　": "␣"}
"""Visible symbols for white space, which would be an empty label."""

UPRIGHT = {"ー": "︱", "（": "︵", "）": "︶", "「": "﹁", "」": "﹂"}
"""Presentation forms for vertical writing."""

KANA = re.compile("[\u3041-\u30ff]")

LONGEST = 14
"""Maximum number of characters of a label in an image."""

COLOURS = ("#f6f9fe", "#d3e2fa", "#86aeee", "#3a69d2", "#1d3c98", "#0c1648")
"""Colour stops for weights from 0 to the largest, evenly spaced."""

FUTURE = "#e7e5e1"
"""Colour of causally masked positions; not on the colour scale."""

DIVERGED = "#db2626"
"""Colour of NaN: the model diverged."""


def visible(piece: str) -> str:
    """`printable` form of a piece, with visible symbols for white space."""
    return printable("".join(SPACES.get(character, character) for character in piece))


def readable(piece: str, known: Container[str] | None = None) -> str:
    """Label of a piece in an image: as `visible`, without the leading `▁`, and truncated to `LONGEST`, but never
    within a `[code]`."""
    label = ""
    for character in (piece.lstrip("▁") or piece).replace("▁", " "):
        shown = SPACES.get(character) or printable(character, known)
        if len(label) + len(shown) > LONGEST:
            return label + "…"
        label += shown
    return label


def printable(text: str, known: Container[str] | None = None) -> str:
    """Replace control characters, and characters without a glyph in `known`, by `[code]` (hex); spaces are kept."""
    return "".join(
        character if _is_printable(character) and (known is None or character in known) else f"[{ord(character):X}]"
        for character in text
    )


def _is_printable(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] not in "CZ"


def vertical(label: str) -> list[str]:
    """Characters of a Japanese label for vertical writing; empty if the label is not written vertically."""
    letters = label.strip("▁")
    if not letters or len(letters) > 6 or not all(map(is_wide, letters)):
        return []
    return [UPRIGHT.get(letter, letter) for letter in letters]


def hundredths(weight: float) -> str:
    """Weight with two decimals and without the leading zero, to save space in a cell: `.42`, `1` or `0`."""
    text = f"{weight:.2f}"
    return {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))


def width(text: str) -> int:
    """Width in terminal columns: 2 per East Asian wide character, 0 per combining mark."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if is_wide(character) else 1


def is_wide(character: str) -> bool:
    """Whether a character is full-width (e.g. Japanese)."""
    return unicodedata.east_asian_width(character) in "WF"


def fitted(text: str, columns: int) -> str:
    """Pad a text with spaces, or truncate it with `…`, to exactly `columns` terminal columns."""
    if width(text) > columns:
        while width(text) > columns - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (columns - width(text))


def is_japanese(text: str) -> bool:
    """Whether a text contains kana. Han characters need a language tag to be drawn in their Japanese form."""
    return KANA.search(text) is not None
