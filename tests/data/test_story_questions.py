"""Questions at the end of the stories: gold answers, and the scores of heuristics."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from data.primer import rows
from data.primer.splits import SPLITS
from training.evaluation.coreference import HEURISTICS, Pronoun, answers, share, without_questions

AT_MOST = 0.60
"""Share of the questions that a rule without understanding may answer."""


@cache
def stories() -> list[dict[str, Any]]:
    """Return stories of all plots."""
    return rows("stories", 3000, seed=13)


def asked() -> list[tuple[str, str, Pronoun, dict[str, Any]]]:
    """Return every question with its answer, the gold label and the row."""
    result = []
    for row in stories():
        text = row["text"]
        for (start, stop, *_), answer in zip(row["questions"], answers(row, text), strict=True):
            result.append((text[start : stop - 1], text[stop : text.index(".", stop) + 1], answer, row))
    return result


def test_most_stories_end_with_questions_and_their_answers() -> None:
    """Guards spans that are shifted, which would score the model on other words."""
    assert 0.6 < sum(bool(row["questions"]) for row in stories()) / len(stories()) < 0.9
    kinds = set()
    for question, answer, label, row in asked():
        assert re.fullmatch(r"(Who|Whom|What) [\w' ]+\?", question), question
        assert re.fullmatch(r"[\w' ]+( was| were| did)?\.", answer), answer
        said = row["text"][label.start : label.end]
        assert answer.startswith(said)
        assert said.lower() == row["names"][label.antecedent].lower()
        kinds.add((question.split()[0], answer.split()[-1] in ("was.", "did.", "were.")))
    assert kinds == {("Who", True), ("What", True), ("What", False), ("Whom", False)}
    for row in stories():
        assert without_questions(row, row["text"]).endswith(".")
        assert "?" not in without_questions(row, row["text"])


def test_answers_repeat_a_mention_in_the_story() -> None:
    """Guards the gold links of answers, which the Attention tab shows."""
    for row in stories():
        end = len(without_questions(row, row["text"]))
        of = {(start, stop): referent for start, stop, referent, pronoun in row["mentions"] if not pronoun}
        for _, start, stop, source, source_end, referent, *kind in row["questions"]:
            assert source_end <= end
            assert of[start, stop] == of[source, source_end] == referent
            assert referent in kind
            assert len(set(kind)) == len(kind) > 1


@pytest.mark.parametrize("name", HEURISTICS)
def test_position_heuristics_answer_few_questions(name: str) -> None:
    """Guards against answers that are mostly the first or the last noun, which a model could give without reading."""
    shares = [share(answer, HEURISTICS[name]) for _, _, answer, _ in asked()]
    assert len(shares) > 2000
    assert 0.35 < sum(shares) / len(shares) <= AT_MOST


def test_exclusion_heuristic_answers_few_questions() -> None:
    """Guards against questions such as 'Whom did Emi thank?', which anybody answers who knows the names of the two."""
    shares = []
    for question, _, answer, row in asked():
        left = [one for one in answer.candidates if row["names"][one].lower() not in question.lower()]
        shares.append((answer.antecedent in left) / max(1, len(left)))
    assert sum(shares) / len(shares) <= AT_MOST + 0.02


def test_a_question_has_one_answer() -> None:
    """Guards against 'Who was happy?' after two people were; the story says the predicate of one subject only."""
    for question, _, answer, row in asked():
        match = re.fullmatch(r"Who was (\w+)\?", question)
        if match:
            subjects = re.findall(rf"(\w+) was (?:very |too )?{match[1]}\b", without_questions(row, row["text"]))
            names = {said for said in subjects if said.lower() not in ("she", "he", "it")}
            assert len(names) <= 1, (question, row["text"])
            assert all(name in row["names"][answer.antecedent] for name in names), (question, row["text"])


def test_answers_follow_the_plot() -> None:
    """Guards the gold labels where the pronoun alone does not tell: 'lent … because she was kind' is the owner, who is
    the first person of the story."""
    result = {"kind": 0, "want": 0}
    for question, _, answer, row in asked():
        if row["construction"] != "borrowed":
            continue
        owner = min(answer.candidates, key=lambda referent: answer.candidates[referent][0].start)
        if question == "Who was kind?":
            assert answer.antecedent == owner, row["text"]
            result["kind"] += 1
        elif question.startswith("Who wanted to"):
            assert answer.antecedent != owner, row["text"]
            result["want"] += 1
    assert min(result.values()) >= 5


def test_every_split_has_questions() -> None:
    """Guards the test of answers against an empty split."""
    for split in SPLITS:
        of_split = [row for row in stories() if row["split"] == split]
        assert sum(bool(row["questions"]) for row in of_split) > 0.5 * len(of_split)


def test_japanese_side_has_the_same_questions() -> None:
    """Guards the Japanese side: as many questions, each followed by an answer with です."""
    for row in stories():
        result = re.findall(r"[^。]*(?:誰|何)[^。]*か。([^。]+)です。", row["japanese"])
        assert len(result) == len(row["questions"]), row["japanese"]
