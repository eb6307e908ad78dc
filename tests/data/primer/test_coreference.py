"""Pronouns of the stories: gold antecedents, and how far one gets without understanding."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import Any

import pytest

from data.primer import rows
from data.primer.coreference import FORMS, HEURISTICS, pronouns, share

AT_MOST = 0.60
"""Share of the pronouns that a guess without understanding may get right."""


@cache
def stories() -> list[dict[str, Any]]:
    """Stories of all plots."""
    return rows("stories", 3000, seed=13)


def test_mentions_spell_nouns_and_pronouns() -> None:
    """A shifted span would hide a rival, and an easy pronoun would count as a contested one."""
    for row in stories():
        for start, end, referent, is_pronoun in row["mentions"]:
            said = row["text"][start:end]
            assert (said.lower() in FORMS) == bool(is_pronoun), (said, row["text"])
            assert 0 <= referent < len(row["referents"])
            if is_pronoun:
                assert FORMS[said.lower()] == row["referents"][referent], (said, row["text"])


def test_the_same_thing_is_the_same_referent() -> None:
    """'the park' mentioned twice is one place: as two it would split its own count, and lose as the most frequent noun."""
    for row in stories():
        named = defaultdict(set)
        for start, end, referent, is_pronoun in row["mentions"]:
            said = row["text"][start:end].lower()
            if not is_pronoun and said.startswith("the ") and " new " not in said:
                named[said].add(referent)
        # The broken thing and the new one of the same name are two.
        wrong = {said for said, found in named.items() if len(found) > 1}
        assert not wrong or row["construction"] in ("broken", "dropped"), (wrong, row["text"])


def test_antecedents_are_those_of_the_mentions() -> None:
    """Two columns tell the same story; were they to disagree, one of two scores would be wrong."""
    for row in stories():
        of = {(start, end): referent for start, end, referent, _ in row["mentions"]}
        expected = [(start, end, of[start, end]) for start, end, *_ in row["antecedents"]]
        assert [(p.start, p.end, p.antecedent) for p in pronouns(row, row["text"])] == expected
        for a, b, c, d in row["antecedents"]:
            assert of[a, b] == of[c, d], row["text"]


@pytest.mark.parametrize("name", HEURISTICS)
def test_no_guess_without_understanding_gets_far(name: str) -> None:
    """If the nearest noun were the answer, a head that looks one noun back would pass for one that understands."""
    right, total = defaultdict[str, float](float), Counter[str]()
    for row in stories():
        for pronoun in pronouns(row, row["text"]):
            if pronoun.contested:
                for key in ("all", FORMS[row["text"][pronoun.start : pronoun.end].lower()]):
                    right[key] += share(pronoun, HEURISTICS[name])
                    total[key] += 1
    assert total["all"] > 2 * len(stories())
    shares = {key: right[key] / total[key] for key in ("all", "it", "he", "she")}
    assert max(shares.values()) <= AT_MOST, shares


@pytest.mark.parametrize("name", HEURISTICS)
def test_nor_does_one_that_knows_no_grammar(name: str) -> None:
    """The same for all pronouns, contested or not, when a guess does not know that 'she' is nobody's ball."""
    right, total = 0.0, 0
    for row in stories():
        for position, (start, _, referent, is_pronoun) in enumerate(row["mentions"]):
            if not is_pronoun:
                continue
            spans: dict[int, list[tuple[int, int]]] = {}
            for a, b, other, other_pronoun in row["mentions"][:position]:
                if not other_pronoun and b <= start:
                    spans.setdefault(other, []).append((a, b))
            ranks = {other: HEURISTICS[name](found) for other, found in spans.items()}
            best = [other for other, rank in ranks.items() if rank == max(ranks.values())]
            right += (referent in best) / len(best)
            total += 1
    assert right / total <= AT_MOST, right / total


def test_nearly_every_story_has_to_be_understood() -> None:
    """A story without a contested pronoun teaches a head nothing about meaning."""
    contested = [any(p.contested for p in pronouns(row, row["text"])) for row in stories()]
    assert sum(contested) / len(contested) > 0.9


def test_meaning_decides_either_way() -> None:
    """'lent … because she was kind' is the owner, 'because she wanted to read it' the reader: both must occur, about alike."""
    outcome = Counter[tuple[str, bool]]()
    for row in stories():
        if row["construction"] != "borrowed":
            continue
        for pronoun in pronouns(row, row["text"]):
            before, after = row["text"][: pronoun.start], row["text"][pronoun.end :]
            if pronoun.contested and before.endswith("because ") and after.startswith((" was kind", " wanted")):
                hero = min(pronoun.candidates, key=lambda referent: pronoun.candidates[referent][0])
                outcome["kind" if after.startswith(" was kind") else "wanted", pronoun.antecedent == hero] += 1
    assert set(outcome) == {("kind", True), ("wanted", False)}
    assert min(outcome.values()) > 0.35 * sum(outcome.values())
