"""Register constructions, functions from a `Chooser` to a `Draft`, and derive sentences from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from data.primer.grammar.choice import Chooser, objects
from data.primer.grammar.clauses import Clause
from data.primer.grammar.tree import Link, Parts, Word, Written, write
from data.primer.lexicon import Noun

Combination = tuple[str, str, str]
"""Construction, predicate and noun: the unit that the `novel` split holds out."""


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """Both languages of a sentence as trees, and its combinations of content words."""

    construction: str
    english: Parts
    japanese: Parts
    combinations: tuple[Combination, ...]

    def written(self) -> tuple[Written, Written]:
        """Return English and Japanese as text with spans."""
        return write(self.english, english=True), write(self.japanese, english=False)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """Result of a construction: both sides without final punctuation, and their clauses."""

    english: Parts
    japanese: Parts
    clauses: tuple[Clause, ...]
    ending: str = "."
    pairs: tuple[tuple[str, str], ...] = ()
    """Additional (predicate, noun) pairs that are not in a clause, e.g. the two things compared."""


Construction = Callable[[Chooser], Draft]
CONSTRUCTIONS: dict[str, Construction] = {}
"""All constructions by name, in the order of definition."""
WEIGHTS: list[tuple[str, float]] = []
"""Name and weight of each construction."""


def construction(weight: float = 1.0) -> Callable[[Construction], Construction]:
    """Register a construction under the name of its function; `weight` is its relative frequency in the corpus."""

    def register(function: Construction) -> Construction:
        CONSTRUCTIONS[function.__name__] = function
        WEIGHTS.append((function.__name__, weight))
        return function

    return register


FREE = 8
"""Minimum number of a verb's objects for holding out one: without 'do homework', training would lack 'do'."""


def pairs(clause: Clause) -> Iterable[tuple[str, str]]:
    """Yield the (predicate, noun) pairs of a clause: the nouns of its complements if it has any, else its subject."""
    verb = clause.head.verb
    if verb is not None and verb.transitive and len(objects(verb)) < FREE:
        return []
    names = [c.entry.english for c in clause.complements if isinstance(c.entry, Noun) and c.english_rank <= 1]
    if not names and isinstance(clause.subject.entry, Noun):
        names = [clause.subject.entry.english]
    return [(clause.head.lemma, noun) for noun in names]


_STOPS = {".": "。", "?": "。", "!": "。"}


def finish(name: str, draft: Draft) -> Sentence:
    """Add the final punctuation and list the combinations."""
    stop = Link()
    english = (*draft.english, Word(draft.ending, stop))
    asked = (Word("か", stop),) if draft.ending == "?" else ()
    japanese = (*draft.japanese, *asked, Word(_STOPS[draft.ending], stop))
    combinations = [pair for clause in draft.clauses for pair in pairs(clause)] + list(draft.pairs)
    return Sentence(
        name, english, japanese, tuple((name, predicate, noun) for predicate, noun in dict.fromkeys(combinations))
    )


def derive(chooser: Chooser) -> Sentence:
    """Derive one sentence from a construction drawn by weight."""
    name = chooser.weighted(WEIGHTS)
    return finish(name, CONSTRUCTIONS[name](chooser))
