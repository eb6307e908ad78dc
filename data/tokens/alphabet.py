"""The characters that the sources of a translator are written in: by them text in another language is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any

SAMPLE = 50_000
"""About so many training pairs are looked through: enough for thousands of Chinese characters, and a fraction of a
second."""

FOREIGN = 10
"""A character so many times as frequent in the targets as in the sources is theirs: sources quote some of them."""


def source_alphabet(rows: Any) -> str:
    """The characters in which the sources of training pairs (a Dataset with `source` and `target`) are
    written, sorted."""
    sample = rows.select_columns(["source", "target"])[:: max(1, len(rows) // SAMPLE)]
    source, target = visible_characters(sample["source"]), visible_characters(sample["target"])
    sources, targets = source.total(), target.total()
    # A comparison of the shares in both sides, without a division: a side may be empty.
    return "".join(sorted(c for c, count in source.items() if target[c] * sources <= FOREIGN * count * targets))


def visible_characters(texts: Iterable[str]) -> Counter[str]:
    """How often each character occurs, white space left out."""
    count: Counter[str] = Counter()
    for text in texts:
        count.update("".join(text.split()))
    return count


def foreign_characters(text: str, alphabet: Set[str]) -> list[str]:
    """The letters of a text outside an alphabet, in order and each once, where they are most of its letters; else none.

    Letters alone tell a language, and by either case: "2047!" or "NASA" is none of another, though a small corpus lacks
    it.
    """
    letters = [character for character in text if character.isalpha()]
    foreign = [letter for letter in letters if not {letter, letter.lower(), letter.upper()} & alphabet]
    return list(dict.fromkeys(foreign)) if len(foreign) > len(letters) / 2 else []
