"""Generate the rows of the built-in corpus: distinct, assigned to splits, in an order fixed by the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from operator import itemgetter

from tqdm import tqdm

from data.cpu_cores import uncollected, workers
from data.primer import constructions  # noqa: F401  (registers the constructions)
from data.primer.grammar.choice import Chooser
from data.primer.grammar.sentences import Sentence, derive
from data.primer.grammar.tree import alignment, antecedents, segments
from data.primer.splits import parts, quotas, split
from data.primer.stories import story_row
from data.primer.stream import Draw, Drawn, Row, drawn

PATIENCE = 200
"""Number of derivations per requested row after which the corpus counts as exhausted."""
ENOUGH = 10_000
"""From this number of rows on, the training split contains nearly every word in every construction, so a `novel` row is
kept only if its parts occur in training."""
MANY = 4_000
"""From this number of rows on, several processes draw them: starting these takes as long as a few hundred rows."""


def sentence_columns(sentence: Sentence) -> Row:
    """Convert a sentence to a row: source, target, alignment, words (spans of both sides), antecedents (spans in the
    source), construction, split."""
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
    """Return the English and the Japanese text of a sentence or story row."""
    return (row["source"], row["target"]) if "source" in row else (row["text"], row["japanese"])


def sentence_row(chooser: Chooser) -> Drawn:
    """Derive a sentence; return its row and its combinations of words."""
    sentence = derive(chooser)
    row = sentence_columns(sentence)
    return row, sentence.combinations, sides(row)


class Exhausted(ValueError):
    """The grammar cannot generate as many distinct rows as requested."""


def distinct(draw: Callable[[], Drawn], count: int) -> Iterator[tuple[int, Row]]:
    """Yield `count` rows that differ in their English text, each split up to its quota, with the draw number of each
    row; the rows of each split are in draw order. The text of a story does not include the question at its end, so no
    story is in two splits with two questions.

    A text that two constructions assign to different splits (a few in 100,000) stays in the first split. Novel rows
    come last, and only if all their parts occur in the training split. Raises Exhausted if there are too few rows.
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
        row, combinations, (english, japanese) = draw()
        name = row["split"]
        if english in seen or home.setdefault(japanese, name) != name or not left.get(name, 1):
            continue
        seen.add(english)
        if name == "novel":
            candidates.append((number, row, parts(combinations)))
            continue
        left[name] -= 1
        if name == "train":
            known |= parts(combinations)
        yield number, row
    raise Exhausted(f"the built-in corpus has fewer than {count} distinct rows; it has at least {len(seen)}")


KINDS: dict[str, Draw] = {"sentences": sentence_row, "stories": story_row}
"""Draw function of each kind of row."""


def numbered(kind: str, count: int, seed: int, processes: int | None = None) -> Iterator[tuple[int, Row]]:
    """Like `rows`, but yield each row as soon as it is drawn, with its draw number; each split is in draw order.

    `processes`: number of worker processes; 0 draws in this process. Default: one per core, or 0 for few rows.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind of rows {kind!r}; there are {' and '.join(map(repr, KINDS))}")
    draw = KINDS[kind]
    if processes is None:
        processes = workers() if count >= MANY else 0
    with closing(drawn(kind, draw, seed, processes)) as stream:
        chosen = distinct(lambda: next(stream), count)
        yield from tqdm(chosen, f"drawing {kind}", count, disable=None, delay=2, leave=False)


def rows(kind: str, count: int, seed: int, processes: int | None = None) -> list[Row]:
    """Generate `count` distinct rows of `kind` ("sentences" or "stories") over all splits. The rows depend on the seed,
    not on the machine or the number of processes."""
    with uncollected():
        return [row for _, row in sorted(numbered(kind, count, seed, processes), key=itemgetter(0))]
