"""Whom or what a pronoun means: the nouns that would agree with it, and three guesses that need no understanding.

A row lists its mentions as [start, end, referent, is a pronoun] in characters of the English text; for every referent the pronoun that
can stand for it (he, she, it, they); and what the text calls it once it is known (Emi, the ball). A pronoun is *contested* when at
least two referents that agree with it were mentioned by noun before: grammar leaves it open, and only what the text says decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from data.primer.tree import Written

FORMS = {"he": "he", "him": "he", "she": "she", "her": "she", "it": "it", "they": "they", "them": "they"}
"""Subject and object forms of the pronouns, and the class they agree with."""


def mentions(written: Written) -> dict[str, Any]:
    """The columns `mentions`, `referents` and `names` of a text. Referents are numbered as they appear; one name is one referent."""
    known: dict[str, int] = {}
    classes: list[str] = []
    names: list[str] = []
    rows = []
    for mention in sorted(written.mentions, key=lambda mention: (mention.start, mention.end)):
        number = known.setdefault(mention.referent.name, len(known))
        if number == len(classes):
            classes.append(mention.referent.pronoun)
            names.append(mention.referent.again)
        rows.append([mention.start, mention.end, number, int(mention.pronoun)])
    return {"mentions": rows, "referents": classes, "names": names}


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun with all that it could mean by its form."""

    start: int
    end: int
    antecedent: int
    """The referent that it means."""
    candidates: dict[int, list[tuple[int, int]]]
    """For every agreeing referent its mentions by noun before the pronoun, in order."""

    @property
    def contested(self) -> bool:
        """Whether grammar alone leaves a choice."""
        return len(self.candidates) > 1


def pronouns(row: dict[str, Any], text: str) -> list[Pronoun]:
    """The pronouns of a row whose antecedent was mentioned by noun before, in order; `text` is the row's English side."""
    found = []
    for position, (start, end, referent, is_pronoun) in enumerate(row["mentions"]):
        if not is_pronoun:
            continue
        form = FORMS[text[start:end].lower()]
        candidates: dict[int, list[tuple[int, int]]] = {}
        for a, b, other, other_pronoun in row["mentions"][:position]:
            if not other_pronoun and row["referents"][other] == form:
                candidates.setdefault(other, []).append((a, b))
        if referent in candidates:
            found.append(Pronoun(start, end, referent, candidates))
    return found


Spans = Sequence[tuple[int, int]]
HEURISTICS: dict[str, Callable[[Spans], int]] = {
    "nearest noun": lambda spans: spans[-1][1],
    "first noun": lambda spans: -spans[0][0],
    "most frequent noun": len,
}
"""Guesses that need no understanding: the candidate whose mentions rank highest."""


def share(pronoun: Pronoun, rank: Callable[[Spans], int]) -> float:
    """How often a guess by rank finds the antecedent: 1 or 0, or between where candidates share the first place."""
    ranks = {referent: rank(spans) for referent, spans in pronoun.candidates.items()}
    best = [referent for referent, value in ranks.items() if value == max(ranks.values())]
    return (pronoun.antecedent in best) / len(best)
