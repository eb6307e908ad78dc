"""Rows of the embedded corpus: distinct, split, in a fixed order for a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from data.primer import constructions  # noqa: F401  (registers the constructions)
from data.primer.choice import Chooser
from data.primer.sentences import Sentence, derive
from data.primer.splits import parts, quotas, split
from data.primer.stories import story_row
from data.primer.tree import alignment, antecedents, segments

Row = dict[str, Any]
Combinations = Sequence[tuple[str, ...]]
PATIENCE = 200
"""Derivations per row asked for, on average, before the corpus is declared exhausted."""
ENOUGH = 10_000
"""From so many rows on, training has met nearly every word in every construction, and `novel` rows are held to it."""


def sentence_columns(sentence: Sentence) -> Row:
    """A sentence as a row: source, target, alignment, words of both sides, antecedents (spans in source), construction, split."""
    source, target = sentence.written()
    return {
        "source": source.text,
        "target": target.text,
        "alignment": alignment(source, target),
        "words": [segments(source), segments(target)],
        "antecedents": antecedents(source),
        "construction": sentence.construction,
        "split": split(target.text, sentence.combinations),
    }


def sides(row: Row) -> tuple[str, str]:
    """English and Japanese of a sentence or a story."""
    return (row["source"], row["target"]) if "source" in row else (row["text"], row["japanese"])


def sentence_row(chooser: Chooser) -> tuple[Row, Combinations]:
    """One derivation as a row, and the combinations of words in it."""
    sentence = derive(chooser)
    return sentence_columns(sentence), sentence.combinations


def distinct(draw: Callable[[], tuple[Row, Combinations]], count: int, source: str, target: str) -> list[Row]:
    """`count` rows that differ in column `source`, each split up to its quota, in the order they were drawn.

    A text that two constructions put into different splits (it happens a few times in 100,000) stays where it was first. A novel row
    is kept when training has seen each of its parts. Raises ValueError when so many rows cannot be found.
    """
    left = quotas(count)
    novel = left.pop("novel")
    seen: set[str] = set()
    home: dict[str, str] = {}
    known: set[tuple[str, ...]] = set()
    kept: list[tuple[int, Row]] = []
    candidates: list[tuple[int, Row, frozenset[tuple[str, ...]]]] = []
    for number in range(PATIENCE * count + 10_000):
        if not any(left.values()) and len(candidates) >= novel:
            fit = [(at, row) for at, row, asked in candidates if count < ENOUGH or asked <= known]
            if len(fit) >= novel:
                return [row for _, row in sorted(kept + fit[:novel], key=lambda item: item[0])]
        row, combinations = draw()
        name = row["split"]
        if row[source] in seen or home.setdefault(row[target], name) != name or not left.get(name, 1):
            continue
        seen.add(row[source])
        if name == "novel":
            candidates.append((number, row, parts(combinations)))
            continue
        left[name] -= 1
        kept.append((number, row))
        if name == "train":
            known |= parts(combinations)
    raise ValueError(f"the embedded corpus has fewer than {count} distinct rows; it has at least {len(seen)}")


def rows(kind: str, count: int, seed: int) -> list[Row]:
    """`count` distinct rows of `kind` ("sentences" or "stories") in all splits; the same for the same seed, everywhere."""
    if kind not in ("sentences", "stories"):
        raise ValueError(f"no kind of rows {kind!r}; there are 'sentences' and 'stories'")
    chooser = Chooser(random.Random(seed))
    if kind == "stories":
        return distinct(lambda: story_row(chooser), count, "text", "japanese")
    return distinct(lambda: sentence_row(chooser), count, "source", "target")
