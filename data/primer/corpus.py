"""Rows of the embedded corpus: distinct, with splits, in an order fixed by the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from operator import itemgetter
from typing import NamedTuple

from tqdm import tqdm

from data.primer import constructions  # noqa: F401  (registers the constructions)
from data.primer.grammar.choice import Chooser
from data.primer.grammar.sentences import Sentence, derive
from data.primer.grammar.tree import alignment, antecedents, segments
from data.primer.splits import parts, quotas, split
from data.primer.stories import story_row
from data.primer.stream import Draw, Drawn, Row, drawn
from data.processes import uncollected, workers

PATIENCE = 200
"""Derivations for each requested row, on average, until the corpus counts as exhausted."""
ENOUGH = 10_000
"""From this number of rows on, the training split has nearly every word in every construction, and the parts of
`novel` rows must occur in it."""
MANY = 4_000
"""From this number of rows on, several processes draw them. Starting them takes as long as drawing a few hundred
rows."""


def sentence_columns(sentence: Sentence) -> Row:
    """A sentence as a row: source, target, alignment, words (spans of both sides), antecedents (spans in the source),
    construction, split."""
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
    """The English and the Japanese text of a sentence or a story."""
    return (row["source"], row["target"]) if "source" in row else (row["text"], row["japanese"])


def sentence_row(chooser: Chooser) -> Drawn:
    """A derivation as a row, and its combinations of words."""
    sentence = derive(chooser)
    return sentence_columns(sentence), sentence.combinations


def distinct(draw: Callable[[], Drawn], count: int, source: str, target: str) -> Iterator[tuple[int, Row]]:
    """`count` rows that differ in column `source`, each split up to its quota, with the numbers of their draws; rows
    of one split are in order.

    A text that two constructions assign to different splits (a few in 100,000) stays in the first. Novel rows come
    last; a row is kept if all its parts occur in the training split. Raises ValueError if there are fewer rows.
    """
    left = quotas(count)
    novel = left.pop("novel")
    seen: set[str] = set()
    home: dict[str, str] = {}
    known: set[tuple[str, ...]] = set()
    candidates: list[tuple[int, Row, frozenset[tuple[str, ...]]]] = []
    for number in range(PATIENCE * count + 10_000):
        if not any(left.values()) and len(candidates) >= novel:
            fit = [(at, row) for at, row, asked in candidates if count < ENOUGH or asked <= known]
            if len(fit) >= novel:
                yield from fit[:novel]
                return
        row, combinations = draw()
        name = row["split"]
        if row[source] in seen or home.setdefault(row[target], name) != name or not left.get(name, 1):
            continue
        seen.add(row[source])
        if name == "novel":
            candidates.append((number, row, parts(combinations)))
            continue
        left[name] -= 1
        if name == "train":
            known |= parts(combinations)
        yield number, row
    raise ValueError(f"the embedded corpus has fewer than {count} distinct rows; it has at least {len(seen)}")


class Kind(NamedTuple):
    """How rows of a kind are drawn, and the columns of their English and Japanese text."""

    draw: Draw
    source: str
    target: str


KINDS = {"sentences": Kind(sentence_row, "source", "target"), "stories": Kind(story_row, "text", "japanese")}


def numbered(kind: str, count: int, seed: int, processes: int | None = None) -> Iterator[tuple[int, Row]]:
    """Like `rows`, but yields each row when it is drawn, with the number of its draw; rows of one split are in order.

    `processes`: number of worker processes; 0 draws in this process. Default: one per core, or 0 for few rows.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind of rows {kind!r}; there are {' and '.join(map(repr, KINDS))}")
    draw, source, target = KINDS[kind]
    if processes is None:
        processes = workers() if count >= MANY else 0
    with closing(drawn(kind, draw, seed, processes)) as found:
        chosen = distinct(lambda: next(found), count, source, target)
        yield from tqdm(chosen, f"drawing {kind}", count, disable=None, delay=2, leave=False)


def rows(kind: str, count: int, seed: int, processes: int | None = None) -> list[Row]:
    """`count` distinct rows of `kind` ("sentences" or "stories") over all splits. They depend on the seed only, not on
    the machine or the number of processes."""
    with uncollected():
        return [row for _, row in sorted(numbered(kind, count, seed, processes), key=itemgetter(0))]
