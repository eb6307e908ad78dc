"""Score pronoun resolution on rows with gold mentions: candidates, antecedents, and heuristics as baselines.

A row has the columns `mentions`, [start, end, referent, is a pronoun] in characters of the text; `referents`, the
pronoun class of each referent (he, she, it, they); `names`, the noun used for each referent after its first mention
(Emi, the ball); and `turns`, [start, end, antecedent, rival]. Two sets of pronouns are scored:

- *contested*: at least two referents that agree with the pronoun were mentioned by a noun before it. Many of these
  pronouns are resolved by salience alone: the subject of the last sentence is often the antecedent.
- *turns*: two rivals, each the antecedent in half of the stories of a plot; only the meaning of the sentence
  identifies the antecedent ("Emi lent Anna the book because she was kind", or "… because she wanted to read it"). These
  are the schemas of Winograd (1972), proposed as a test by Levesque et al. (2012). As in their test, a question goes
  with each ("Who was kind? {} was."), in the column `turn_questions`; it is empty if the story answers the question
  elsewhere too.

Some stories end with questions ("Who was kind? Emi was."). The column `questions` has a list of integers for each: the
start of the question, the start of its answer, the end of the noun in the answer, start and end of the mention in the
story that it repeats, the referent of the answer, and all referents of its kind in the story (people and animals, or
things). The heuristics are baselines for the answers too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

FORMS = {"he": "he", "him": "he", "she": "she", "her": "she", "it": "it", "they": "they", "them": "they"}
"""Subject and object forms of the pronouns, each with its agreement class."""


class Mention(NamedTuple):
    """A mention of a candidate before the pronoun, at [start, end) in characters."""

    start: int
    end: int
    sentence: int
    """Number of the sentence, from 0 at the beginning of the text."""
    pronoun: bool


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun at [start, end) in characters, with its candidates."""

    start: int
    end: int
    antecedent: int
    """Index of the pronoun's referent."""
    candidates: dict[int, list[Mention]]
    """For each possible referent, its mentions before the pronoun, in order."""

    @property
    def contested(self) -> bool:
        """Whether more than one candidate agrees with the pronoun."""
        return len(self.candidates) > 1


def with_candidates(row: dict[str, Any], text: str, span: tuple[int, int], antecedent: int, among: set[int]) -> Pronoun:
    """Return the pronoun at `span`; candidates are the referents in `among` mentioned by a noun before the pronoun."""
    candidates: dict[int, list[Mention]] = {}
    for start, end, referent, is_pronoun in row["mentions"]:
        if referent in among and end <= span[0]:
            mention = Mention(start, end, text.count(". ", 0, start), bool(is_pronoun))
            candidates.setdefault(referent, []).append(mention)
    named = {
        other: mentions for other, mentions in candidates.items() if not all(mention.pronoun for mention in mentions)
    }
    return Pronoun(*span, antecedent, named)


def pronouns(row: dict[str, Any], text: str) -> list[Pronoun]:
    """Return the pronouns of a row whose antecedent is mentioned by a noun before, in order; the candidates are all
    referents that agree with the pronoun. `text` is the row's English side."""
    resolved = []
    for start, end, referent, is_pronoun in row["mentions"]:
        if is_pronoun:
            agreeing = {n for n, form in enumerate(row["referents"]) if form == FORMS[text[start:end].lower()]}
            pronoun = with_candidates(row, text, (start, end), referent, agreeing)
            if referent in pronoun.candidates:
                resolved.append(pronoun)
    return resolved


def turns(row: dict[str, Any], text: str) -> list[Pronoun]:
    """Return the turns of a row, each with its two rivals as candidates."""
    return [
        with_candidates(row, text, (start, end), antecedent, {antecedent, rival})
        for start, end, antecedent, rival in row["turns"]
    ]


def without_questions(row: dict[str, Any], text: str) -> str:
    """Return the story of a row without the questions at its end, which reveal antecedents."""
    return text[: row["questions"][0][0] - 1] if row["questions"] else text


def answers(row: dict[str, Any], text: str) -> list[Pronoun]:
    """Return the answers to the questions of a row, from the start of the answer to the end of its noun; candidates are
    the referents of its kind, with their mentions in the story."""
    end = len(without_questions(row, text))
    answered = []
    for _, start, stop, _, _, referent, *kind in row["questions"]:
        candidates = with_candidates(row, text, (end, end), referent, set(kind)).candidates
        answered.append(Pronoun(start, stop, referent, candidates))
    return answered


Mentions = list[Mention]


def _subject(mentions: Mentions) -> float:
    """Rank later sentences higher; within a sentence, earlier candidates: English subjects come first."""
    last = mentions[-1].sentence
    place = min(mention.start for mention in mentions if mention.sentence == last)
    return last - place / 1e6


HEURISTICS: dict[str, Callable[[Mentions], float]] = {
    "nearest noun": lambda mentions: max(mention.end for mention in mentions if not mention.pronoun),
    "first noun": lambda mentions: -min(mention.start for mention in mentions if not mention.pronoun),
    "most frequent noun": lambda mentions: sum(not mention.pronoun for mention in mentions),
    "last subject": _subject,
}
"""Baselines: each predicts the candidate whose mentions rank highest."""


def share(pronoun: Pronoun, rank: Callable[[Mentions], float]) -> float:
    """Return the probability that the highest-ranked candidate is the antecedent: 1 or 0, or a fraction for ties."""
    ranks = {referent: rank(mentions) for referent, mentions in pronoun.candidates.items()}
    best = [referent for referent, value in ranks.items() if value == max(ranks.values())]
    return (pronoun.antecedent in best) / len(best)


@dataclass(frozen=True)
class Accuracy:
    """Percentages of right referents."""

    count: int
    left_out: int
    """Those of stories longer than the model's context, excluded from all figures."""
    model: float
    guesses: dict[str, float]
    """Accuracies of baselines that ignore the meaning."""
    chance: float
    """Accuracy of a random candidate."""


def accuracy(scored: Sequence[Pronoun], right: int, left_out: int) -> Accuracy:
    """Compare the model, which is right `right` times of the `scored` ones (at least one), with the baselines."""
    percent = 100 / len(scored)
    guesses = {name: percent * sum(share(pronoun, rank) for pronoun in scored) for name, rank in HEURISTICS.items()}
    chance = percent * sum(1 / len(pronoun.candidates) for pronoun in scored)
    return Accuracy(len(scored), left_out, percent * right, guesses, chance)
