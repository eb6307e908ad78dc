"""The alphabet of a translator's source language, used to detect input in another language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any

SAMPLE = 50_000
"""Approximate number of training pairs to read: covers thousands of Chinese characters in a fraction of a second."""

FOREIGN = 10
"""A character more than this many times as frequent in the targets is foreign: some sources quote target text."""


def source_alphabet(rows: Any) -> str:
    """Return the source language's characters, sorted. `rows`: training pairs (Dataset with `source` and `target`)."""
    sample = rows.select_columns(["source", "target"])[:: max(1, len(rows) // SAMPLE)]
    source, target = visible_characters(sample["source"]), visible_characters(sample["target"])
    sources, targets = source.total(), target.total()
    # Relative frequencies are compared without a division: a side may be empty.
    return "".join(sorted(c for c, count in source.items() if target[c] * sources <= FOREIGN * count * targets))


def visible_characters(texts: Iterable[str]) -> Counter[str]:
    """Count all characters except white space."""
    count: Counter[str] = Counter()
    for text in texts:
        count.update("".join(text.split()))
    return count


def foreign_characters(text: str, alphabet: Set[str]) -> list[str]:
    """Return the distinct letters of a text outside an alphabet, in order, if they are more than half of its letters;
    otherwise none.

    Only letters are compared, ignoring case, because a small corpus may lack "2047!" or "NASA".
    """
    letters = [character for character in text if character.isalpha()]
    foreign = [letter for letter in letters if not {letter, letter.lower(), letter.upper()} & alphabet]
    return list(dict.fromkeys(foreign)) if len(foreign) > len(letters) / 2 else []
