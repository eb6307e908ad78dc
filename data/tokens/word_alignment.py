"""Project gold word alignments between two texts from character spans to the tokens of any tokenizer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Span = Sequence[int]
"""Span [start, end) in characters."""


def project(
    alignment: Sequence[Sequence[int]], source: Sequence[Span], target: Sequence[Span]
) -> list[tuple[int, int]]:
    """Return links between tokens: every pair whose tokens overlap a linked pair of spans, on both sides.

    `alignment` holds [source start, source end, target start, target end] in characters; `source` and `target` are the
    token spans (`Tokenizer.spans`). Returns sorted, distinct pairs (source token, target token).
    """
    links = set()
    for a, b, c, d in alignment:
        links |= {(i, j) for i in _within(source, a, b) for j in _within(target, c, d)}
    return sorted(links)


def _within(tokens: Sequence[Span], start: int, end: int) -> list[int]:
    return [number for number, (a, b) in enumerate(tokens) if a < end and start < b]


def possible(links: Collection[tuple[int, int]], sources: int, targets: int) -> set[tuple[int, int]]:
    """Return the sure links between words plus the "possible" links of Och & Ney (2003), which do not count as errors.

    A word without a counterpart may share the links of the word to which it attaches: a Japanese particle shares the
    links of the preceding word, an English article shares the links of the following word. `links` are pairs of indices
    (source word, target word); `sources` and `targets` are the numbers of words.
    """
    result = set(links)
    linked = {target for _, target in result}
    home = -1
    for target in range(targets):
        if target in linked:
            home = target
        else:
            result |= {(source, target) for source, other in links if other == home}
    linked = {source for source, _ in links}
    home = sources
    for source in reversed(range(sources)):
        if source in linked:
            home = source
        else:
            result |= {(source, target) for other, target in result.copy() if other == home}
    return result


def groups(words: Sequence[Span], tokens: Sequence[Span]) -> list[list[int]]:
    """Return, for each word, the indices of the tokens that overlap it."""
    return [_within(tokens, start, end) for start, end in words]
