"""Draw word alignments as SVG pictures: English above, Japanese below, a line for each link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from data.primer.corpus import Row, sides
from data.tokens.word_alignment import project

SIZE = 15
"""Font size in pixels."""
GAP = 9
"""Space between words in pixels."""
TOP, BOTTOM, HEIGHT = 24, 88, 104
"""Baselines of the two rows of text and height of a pair, in pixels."""
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")
"""Colours of the lines, used in rotation."""


@dataclass(frozen=True)
class Linked:
    """A sentence pair as words, with links between word indices."""

    english: tuple[str, ...]
    japanese: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


def links(row: Row) -> Linked:
    """Split a row into words, with links between their indices."""
    english, japanese = (
        tuple(text[a:b] for a, b in spans) for text, spans in zip(sides(row), row["words"], strict=True)
    )
    return Linked(english, japanese, tuple(project(row["alignment"], *row["words"])))


def _width(word: str) -> float:
    """Approximate width in a browser's sans-serif font, in pixels: square for Japanese, half as wide for Latin."""
    return sum(SIZE if ord(character) > 0x2E7F else 0.56 * SIZE for character in word)


def _middles(words: Sequence[str]) -> tuple[list[float], float]:
    """Return the horizontal centre of each word and the width of the row, in pixels."""
    left, centres = float(GAP), []
    for word in words:
        centres.append(left + _width(word) / 2)
        left += _width(word) + GAP
    return centres, left


def picture(pairs: Sequence[Linked]) -> str:
    """Draw all pairs below one another in one SVG document. Words without a link are grey."""
    rows = [(pair, _middles(pair.english), _middles(pair.japanese)) for pair in pairs]
    width = max((max(first[1], second[1]) for _, first, second in rows), default=0)
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{HEIGHT * len(rows)}"'
            f' font-family="sans-serif" font-size="{SIZE}" text-anchor="middle">'
        ),
        f'<rect width="{width:.0f}" height="{HEIGHT * len(rows)}" fill="white"/>',
    ]
    for number, (pair, (above, first), (below, second)) in enumerate(rows):
        shift = ((width - first) / 2, (width - second) / 2)  # centre both rows
        lines.append(f'<g transform="translate(0 {HEIGHT * number})">')
        for i, j in pair.links:
            color = COLORS[i % len(COLORS)]
            start, end = above[i] + shift[0], below[j] + shift[1]
            lines.append(
                f'<path d="M{start:.1f} {TOP + 6}L{end:.1f} {BOTTOM - SIZE - 1}" stroke="{color}" stroke-width="1.5"/>'
            )
        for words, middles, base, move, side in (
            (pair.english, above, TOP, shift[0], 0),
            (pair.japanese, below, BOTTOM, shift[1], 1),
        ):
            linked = {link[side] for link in pair.links}
            lines += [
                f'<text x="{middle + move:.1f}" y="{base}"'
                f' fill="{"#111" if at in linked else "#999"}">{escape(word)}</text>'
                for at, (word, middle) in enumerate(zip(words, middles, strict=True))
            ]
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])
