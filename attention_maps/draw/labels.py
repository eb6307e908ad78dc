"""Labels of tokens, their widths, and the colours of weights, on a terminal and in pictures.

Standard library only: a terminal's table must not wait for a plotting library.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

SPACES = {" ": "␣", "\n": "↵", "\t": "⇥", "　": "␣"}
"""White space would be an empty label."""

UPRIGHT = {"ー": "︱", "（": "︵", "）": "︶", "「": "﹁", "」": "﹂"}
"""Forms for vertical writing."""

KANA = re.compile("[\u3041-\u30ff]")

LONGEST = 14
"""Characters of a label in a picture."""

COLOURS = ("#f6f9fe", "#d3e2fa", "#86aeee", "#3a69d2", "#1d3c98", "#0c1648")
"""Of weights from 0 to the largest, evenly spaced."""

FUTURE = "#e7e5e1"
"""Positions that a causal row cannot attend to; no weight has this colour."""

DIVERGED = "#db2626"
"""NaN: the model diverged."""


def visible(piece: str) -> str:
    """A piece as `printable`, with its white space as signs."""
    return printable("".join(SPACES.get(character, character) for character in piece))


def readable(piece: str, known: Container[str] | None = None) -> str:
    """A piece as its label in a picture: as `visible`, without the `▁` of a word's beginning, and shortened when
    overlong, but never within a `[code]`."""
    label = ""
    for character in (piece.lstrip("▁") or piece).replace("▁", " "):
        shown = SPACES.get(character) or printable(character, known)
        if len(label) + len(shown) > LONGEST:
            return label + "…"
        label += shown
    return label


def printable(text: str, known: Container[str] | None = None) -> str:
    """A text with whatever would steer a terminal, or is not among the `known` glyphs, as its `[code]`; spaces stay."""
    return "".join(
        character if _is_printable(character) and (known is None or character in known) else f"[{ord(character):X}]"
        for character in text
    )


def _is_printable(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] not in "CZ"


def vertical(label: str) -> list[str]:
    """The letters of a Japanese label for writing downwards; none where it would not be written so."""
    letters = label.strip("▁")
    if not letters or len(letters) > 6 or not all(map(is_wide, letters)):
        return []
    return [UPRIGHT.get(letter, letter) for letter in letters]


def hundredths(weight: float) -> str:
    """`.42`, `1` or `0`: the leading zero would only cost room in a cell."""
    text = f"{weight:.2f}"
    return {"0.00": "0", "1.00": "1"}.get(text, text.removeprefix("0"))


def width(text: str) -> int:
    """Columns of a terminal: 2 for an East Asian wide character, 0 for a mark that stands on the one before it."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if is_wide(character) else 1


def is_wide(character: str) -> bool:
    """Japanese characters and the like, as wide as they are high."""
    return unicodedata.east_asian_width(character) in "WF"


def fitted(text: str, columns: int) -> str:
    """A text in exactly so many columns: filled with spaces at the right, or cut with `…`."""
    if width(text) > columns:
        while width(text) > columns - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (columns - width(text))


def is_japanese(text: str) -> bool:
    """Whether it has kana: Han characters have Japanese forms, which need a language tag."""
    return KANA.search(text) is not None
