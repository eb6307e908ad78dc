"""Whom or what a pronoun means, what else it could mean by its form, and guesses that need no understanding.

A row of stories lists its mentions as [start, end, referent, is a pronoun] in characters of the English text; for every
referent the pronoun that can stand for it (he, she, it, they); and what the text calls it once it is known (Emi, the
ball). Two sets of pronouns:

- *contested*: at least two referents that agree with the pronoun were mentioned by noun before. Who follows the thread of a story
  gets many of them right without understanding any: the subject of the last sentence is often the answer.
- *turns*: two rivals, each the answer in half of the stories of a plot, told apart by what is said alone ("Emi lent Anna the book because
  she was kind", or "… because she wanted to read it"). The schemas of Winograd (1972), as Levesque et al. (2012) made a test of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from data.primer.grammar.tree import Written

FORMS = {"he": "he", "him": "he", "she": "she", "her": "she", "it": "it", "they": "they", "them": "they"}
"""Subject and object forms of the pronouns, and the class they agree with."""


def mentions(written: Written) -> dict[str, Any]:
    """The columns `mentions`, `referents`, `names` and `turns` ([pronoun start, end, antecedent, rival]) of a text.

    Referents are numbered as they appear; one name is one referent.
    """
    known: dict[str, int] = {}
    columns: dict[str, Any] = {"mentions": [], "referents": [], "names": [], "turns": []}
    for mention in sorted(written.mentions, key=lambda mention: (mention.start, mention.end)):
        number = known.setdefault(mention.referent.name, len(known))
        if number == len(columns["names"]):
            columns["referents"].append(mention.referent.pronoun)
            columns["names"].append(mention.referent.again)
        columns["mentions"].append([mention.start, mention.end, number, int(mention.pronoun)])
        if mention.rival is not None:
            columns["turns"].append([mention.start, mention.end, number, known[mention.rival.name]])
    return columns


class Mention(NamedTuple):
    """Where a candidate was mentioned before the pronoun."""

    start: int
    end: int
    sentence: int
    """Counted from the first sentence of the text."""
    pronoun: bool


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun with all that it could mean."""

    start: int
    end: int
    antecedent: int
    """The referent that it means."""
    candidates: dict[int, list[Mention]]
    """For every referent that it could mean, the mentions before it, in order."""

    @property
    def contested(self) -> bool:
        """Whether grammar alone leaves a choice."""
        return len(self.candidates) > 1


def with_candidates(row: dict[str, Any], text: str, span: tuple[int, int], antecedent: int, among: set[int]) -> Pronoun:
    """The pronoun at `span`, and those of the referents `among` that the text mentions by noun before it."""
    candidates: dict[int, list[Mention]] = {}
    for start, end, referent, is_pronoun in row["mentions"]:
        if referent in among and end <= span[0]:
            found = Mention(start, end, text.count(". ", 0, start), bool(is_pronoun))
            candidates.setdefault(referent, []).append(found)
    named = {other: found for other, found in candidates.items() if not all(mention.pronoun for mention in found)}
    return Pronoun(*span, antecedent, named)


def pronouns(row: dict[str, Any], text: str) -> list[Pronoun]:
    """The pronouns of a row whose antecedent was mentioned by noun before, in order, each with every referent that
    agrees with it; `text` is the row's English side."""
    found = []
    for start, end, referent, is_pronoun in row["mentions"]:
        if is_pronoun:
            agreeing = {n for n, form in enumerate(row["referents"]) if form == FORMS[text[start:end].lower()]}
            pronoun = with_candidates(row, text, (start, end), referent, agreeing)
            if referent in pronoun.candidates:
                found.append(pronoun)
    return found


def turns(row: dict[str, Any], text: str) -> list[Pronoun]:
    """The pronouns of a row that only meaning decides, each with its two rivals."""
    return [
        with_candidates(row, text, (start, end), antecedent, {antecedent, rival})
        for start, end, antecedent, rival in row["turns"]
    ]


Mentions = list[Mention]


def _nearest(found: Mentions) -> float:
    return max(mention.end for mention in found if not mention.pronoun)


def _first(found: Mentions) -> float:
    return -min(mention.start for mention in found if not mention.pronoun)


def _frequent(found: Mentions) -> float:
    return sum(not mention.pronoun for mention in found)


def _subject(found: Mentions) -> float:
    """The latest sentence that mentions it, and there the earlier the better: English subjects come first."""
    last = found[-1].sentence
    place = min(mention.start for mention in found if mention.sentence == last)
    return last - place / 1e6


HEURISTICS: dict[str, Callable[[Mentions], float]] = {
    "nearest noun": _nearest,
    "first noun": _first,
    "most frequent noun": _frequent,
    "last subject": _subject,
}
"""Guesses that need no understanding: the candidate whose mentions rank highest."""


def share(pronoun: Pronoun, rank: Callable[[Mentions], float]) -> float:
    """How often a guess by rank finds the antecedent: 1 or 0, or between where candidates share the first place."""
    ranks = {referent: rank(found) for referent, found in pronoun.candidates.items()}
    best = [referent for referent, value in ranks.items() if value == max(ranks.values())]
    return (pronoun.antecedent in best) / len(best)
