"""The alphabet of a translator's source language, by which input in another language is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any

SAMPLE = 50_000
"""Approximate number of training pairs read: enough for thousands of Chinese characters, and a fraction of a second."""

FOREIGN = 10
"""A character that is so many times as frequent in the targets belongs to their language: sources quote some of
them."""


def source_alphabet(rows: Any) -> str:
    """The characters of the source language, sorted. `rows`: training pairs, a Dataset with `source` and `target`."""
    sample = rows.select_columns(["source", "target"])[:: max(1, len(rows) // SAMPLE)]
    source, target = visible_characters(sample["source"]), visible_characters(sample["target"])
    sources, targets = source.total(), target.total()
    # Relative frequencies are compared without a division: a side may be empty.
    return "".join(sorted(c for c, count in source.items() if target[c] * sources <= FOREIGN * count * targets))


def visible_characters(texts: Iterable[str]) -> Counter[str]:
    """Counts of all characters but white space."""
    count: Counter[str] = Counter()
    for text in texts:
        count.update("".join(text.split()))
    return count


def foreign_characters(text: str, alphabet: Set[str]) -> list[str]:
    """The distinct letters of a text outside an alphabet, in order, if they are more than half of its letters; else
    none.

    Only letters are compared, and without regard to case: a small corpus may lack "2047!" or "NASA".
    """
    letters = [character for character in text if character.isalpha()]
    foreign = [letter for letter in letters if not {letter, letter.lower(), letter.upper()} & alphabet]
    return list(dict.fromkeys(foreign)) if len(foreign) > len(letters) / 2 else []
