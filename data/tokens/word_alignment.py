"""Gold word alignments between two texts: from spans of characters to tokens of any tokenizer, and to the Pharaoh
format."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Span = Sequence[int]
"""[start, end) in characters."""


def project(
    alignment: Sequence[Sequence[int]], source: Sequence[Span], target: Sequence[Span]
) -> list[tuple[int, int]]:
    """The links between tokens: those that share a character with a linked span, on both sides.

    `alignment` holds [source start, source end, target start, target end] in characters, as the embedded corpus gives
    it; `source` and `target` are the tokens' spans (`Tokenizer.spans`). -> sorted pairs (source token, target token),
    none twice.
    """
    found = set()
    for a, b, c, d in alignment:
        found |= {(i, j) for i in _within(source, a, b) for j in _within(target, c, d)}
    return sorted(found)


def _within(tokens: Sequence[Span], start: int, end: int) -> list[int]:
    return [number for number, (a, b) in enumerate(tokens) if a < end and start < b]


def possible(links: Collection[tuple[int, int]], sources: int, targets: int) -> set[tuple[int, int]]:
    """The links between words, and those that would not be wrong either: "possible" ones, as Och & Ney (2003) call
    them.

    What has no counterpart may go with the word it belongs to: a Japanese particle with what the word before it is
    linked to, an English article with what the next word is. `links` are (source word, target word) of `sources` and
    `targets` words.
    """
    found = set(links)
    linked = {target for _, target in found}
    home = -1
    for target in range(targets):
        if target in linked:
            home = target
        else:
            found |= {(source, target) for source, other in links if other == home}
    linked = {source for source, _ in links}
    home = sources
    for source in reversed(range(sources)):
        if source in linked:
            home = source
        else:
            found |= {(source, target) for other, target in found.copy() if other == home}
    return found


def groups(words: Sequence[Span], tokens: Sequence[Span]) -> list[list[int]]:
    """For every word the tokens that share a character with it."""
    return [_within(tokens, start, end) for start, end in words]


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """ "0-0 1-2": the notation of Pharaoh, GIZA++ and fast_align, source first, counted from 0."""
    return " ".join(f"{i}-{j}" for i, j in links)
