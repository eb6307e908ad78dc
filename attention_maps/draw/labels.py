"""Format token labels for terminals and images, measure their widths, and define the colours of weights.

Uses only the standard library, so that printing a table does not import a plotting library.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container

SPACES = {" ": "␣", "\n": "↵", "\t": "⇥", "　": "␣"}
"""Visible symbols for white space, which would be an empty label."""

UPRIGHT = {"ー": "︱", "（": "︵", "）": "︶", "「": "﹁", "」": "﹂"}
"""Presentation forms for vertical writing."""

LONGEST = 14
"""Maximum number of characters of a label in an image."""

COLOURS = ("#f6f9fe", "#d3e2fa", "#86aeee", "#3a69d2", "#1d3c98", "#0c1648")
"""Colour stops for weights from 0 to the largest, evenly spaced."""

FUTURE = "#e7e5e1"
"""Colour of causally masked positions; not on the colour scale."""

DIVERGED = "#db2626"
"""Colour of NaN: the model diverged."""


def visible(piece: str) -> str:
    """Return the `printable` form of a piece, with visible symbols for white space."""
    return printable("".join(SPACES.get(character, character) for character in piece))


def readable(piece: str, known: Container[str] | None = None) -> str:
    """Return the label of a piece in an image: like `visible`, but without the leading `▁`, and truncated to `LONGEST`
    characters, never within a `[code]`."""
    label = ""
    for character in (piece.lstrip("▁") or piece).replace("▁", " "):
        symbol = SPACES.get(character) or printable(character, known)
        if len(label) + len(symbol) > LONGEST:
            return label + "…"
        label += symbol
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
    """Return the characters of a Japanese label for vertical writing; empty if it is not written vertically."""
    letters = label.strip("▁")
    if not letters or len(letters) > 6 or not all(map(is_wide, letters)):
        return []
    return [UPRIGHT.get(letter, letter) for letter in letters]


def hundredths(weight: float) -> str:
    """Format a weight with two decimals and without the leading zero, to save space in a cell: `.42`, `1` or `0`."""
    text = f"{weight:.2f}"
    return {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))


def width(text: str) -> int:
    """Return the width in terminal columns: 2 per full-width character, 0 per combining mark."""
    marks = ("Mn", "Me")
    characters = (c for c in text if not unicodedata.combining(c) and unicodedata.category(c) not in marks)
    return sum(1 + is_wide(character) for character in characters)


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
    return any("\u3041" <= character <= "\u30ff" for character in text)
