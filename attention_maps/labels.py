"""Tokens as text for terminals and files: white space made visible, and how many columns Japanese takes.

Only the standard library: what is printed must not wait for a plotting library.
"""

from __future__ import annotations

import re
import unicodedata

SPACES = {" ": "␣", "\n": "↵", "\t": "⇥", "　": "␣"}
"""White space would be an empty label."""

UPRIGHT = {"ー": "︱", "（": "︵", "）": "︶", "「": "﹁", "」": "﹂"}
"""Forms for vertical writing."""

KANA = re.compile("[\u3041-\u30ff]")


def visible(piece: str) -> str:
    """A piece as `printable`, with its white space as signs."""
    return printable("".join(SPACES.get(character, character) for character in piece))


def printable(text: str) -> str:
    """A text with whatever has no glyph, or would steer a terminal, as its `[code]`; spaces stay."""
    return "".join(
        f"[{ord(character):X}]" if unicodedata.category(character)[0] in "CZ" and character != " " else character
        for character in text
    )


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
    """Whether kana are among it: characters shared with Chinese look different in Japanese, and must be told so."""
    return KANA.search(text) is not None
