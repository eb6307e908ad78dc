"""Gold word alignments between two texts: from spans of characters to tokens of any tokenizer, and to the Pharaoh format."""

from __future__ import annotations

from collections.abc import Sequence

Span = Sequence[int]
"""[start, end) in characters."""


def project(
    alignment: Sequence[Sequence[int]], source: Sequence[Span], target: Sequence[Span]
) -> list[tuple[int, int]]:
    """The links between tokens: those that share a character with a linked span, on both sides.

    `alignment` holds [source start, source end, target start, target end] in characters, as the embedded corpus gives it; `source`
    and `target` are the tokens' spans (`Tokenizer.spans`). -> sorted pairs (source token, target token), none twice.
    """
    found = set()
    for a, b, c, d in alignment:
        found |= {(i, j) for i in _within(source, a, b) for j in _within(target, c, d)}
    return sorted(found)


def _within(tokens: Sequence[Span], start: int, end: int) -> list[int]:
    return [number for number, (a, b) in enumerate(tokens) if a < end and start < b]


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """ "0-0 1-2": the notation of Pharaoh, GIZA++ and fast_align, source first, counted from 0."""
    return " ".join(f"{i}-{j}" for i, j in links)
