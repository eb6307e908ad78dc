"""Rows of the embedded corpus: distinct, split, in a fixed order for a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from data.primer import constructions  # noqa: F401  (registers the constructions)
from data.primer.choice import Chooser
from data.primer.sentences import derive
from data.primer.splits import quotas, split
from data.primer.stories import story_row
from data.primer.tree import alignment, antecedents

Row = dict[str, Any]
PATIENCE = 200
"""Derivations per row asked for, on average, before the corpus is declared exhausted."""


def sentence_row(chooser: Chooser) -> Row:
    """One derivation as a row: source, target, alignment, antecedents (spans in source), construction, split."""
    sentence = derive(chooser)
    source, target = sentence.written()
    return {
        "source": source.text,
        "target": target.text,
        "alignment": alignment(source, target),
        "antecedents": antecedents(source),
        "construction": sentence.construction,
        "split": split(target.text, sentence.combinations),
    }


def distinct(draw: Callable[[], Row], count: int, source: str, target: str) -> Iterator[Row]:
    """`count` rows that differ in column `source`, each split up to its quota.

    A text that two constructions put into different splits (it happens a few times in 100,000) stays where it was first.
    Raises ValueError when so many rows cannot be found.
    """
    left = quotas(count)
    seen: set[str] = set()
    home: dict[str, str] = {}
    wanted = count
    for _ in range(PATIENCE * count + 10_000):
        if not wanted:
            return
        row = draw()
        split_name = row["split"]
        if left[split_name] and row[source] not in seen and home.setdefault(row[target], split_name) == split_name:
            seen.add(row[source])
            left[split_name] -= 1
            wanted -= 1
            yield row
    if wanted:
        raise ValueError(f"the embedded corpus has fewer than {count} distinct rows; ask for at most {count - wanted}")


def rows(kind: str, count: int, seed: int) -> list[Row]:
    """`count` distinct rows of `kind` ("sentences" or "stories") in all splits; the same for the same seed, everywhere."""
    if kind not in ("sentences", "stories"):
        raise ValueError(f"no kind of rows {kind!r}; there are 'sentences' and 'stories'")
    chooser = Chooser(random.Random(seed))
    if kind == "stories":
        return list(distinct(lambda: story_row(chooser), count, "text", "japanese"))
    return list(distinct(lambda: sentence_row(chooser), count, "source", "target"))
