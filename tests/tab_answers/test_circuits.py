"""Questions about the weights of a head, as the tab asks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tab_answers.circuits import circuits_of, scripts_of
from tab_answers.model_cache import Models
from tab_answers.question import CircuitQuestion, read_question
from tests.tab_answers.conftest import Asking


def asked(asking: Asking, run: Path, **question: Any) -> dict[str, Any]:
    """Return the whole answer to a question."""
    return asking.line(json.dumps({"run": str(run)} | question))


def test_a_small_vocabulary_has_whole_tables(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against tables whose labels belong to other tokens, and pairs that are not their largest entries."""
    monkeypatch.setattr("tab_answers.circuits.LARGEST_TABLE", 10_000)
    question = read_question(json.dumps({"run": str(trained / "runs" / "gpt"), "circuit": ["decoder", 0, 1]}))
    assert isinstance(question, CircuitQuestion)
    answer = circuits_of(question, Models())
    assert -1 <= answer["copying"] <= 1
    assert 0 <= answer["own"] <= 1
    for side in ("attends", "writes"):
        table = answer[side]["table"]
        assert not any(piece.startswith("<") for piece in table["rows"])
        first, second, value = answer[side]["pairs"][0]
        assert table["values"][table["rows"].index(first)][table["columns"].index(second)] == value
        assert value == max(max(row) for row in table["values"])


def test_pairs_of_one_token_and_of_a_translator(asking: Asking, trained: Path) -> None:
    """Guards the filter, and the two vocabularies of cross-attention."""
    gpt, translator = trained / "runs" / "gpt", trained / "runs" / "translate"
    strongest = asked(asking, gpt, circuit=["decoder", 0, 0])["ok"]["attends"]
    assert strongest["table"] is None
    token = next(row.strip("▁") for row, _, _ in strongest["pairs"] if row.strip("▁").isalpha())
    answer = asked(asking, gpt, circuit=["decoder", 0, 0], token=token)["ok"]
    for side in (answer["attends"], answer["writes"]):
        assert side["table"] is None
        assert {row.strip("▁") for row, _, _ in side["from_token"]} == {token}
        assert {column.strip("▁") for _, column, _ in side["to_token"]} == {token}
    cross = asked(asking, translator, circuit=["cross", 0, 0])["ok"]
    assert cross["copying"] is None
    assert not cross["rotary"]
    assert not scripts_of(*(source for _, source, _ in cross["attends"]["pairs"])) & {"HIRAGANA", "KATAKANA", "CJK"}
    assert not scripts_of(*(target for _, target, _ in cross["writes"]["pairs"])) & {"LATIN"}
    assert asked(asking, translator, circuit=["encoder", 0, 0], distance=-2)["ok"]["writes"] is None


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"circuit": ["decoder", 0, None]}, "must be a head"),
        ({"circuit": "all"}, "must be a head"),
        ({"circuit": ["decoder", 99, 0]}, "no head 0 in decoder layer 99"),
        ({"circuit": ["cross", 0, 0]}, "no head 0 in cross layer 0"),
        ({"circuit": ["decoder", 0, 0], "distance": -1}, "only an encoder attends to later tokens"),
        ({"circuit": ["decoder", 0, 0], "distance": 10**9}, "'distance' must be a number"),
        ({"circuit": ["decoder", 0, 0], "token": "qqqqqq"}, "no token of the vocabulary begins with 'qqqqqq'"),
        ({"circuit": ["decoder", 0, 0], "token": "x" * 200}, "more than the limit of 100"),
        ({"circuit": ["decoder", 0, 0], "checkpoint": "../x"}, "'checkpoint' must be"),
    ],
)
def test_invalid_circuit_questions_are_refused(asking: Asking, trained: Path, question: dict, sentence: str) -> None:
    """Guards against tracebacks and a process that ends."""
    answer = asked(asking, trained / "runs" / "gpt", **question)
    assert sentence in answer.get("error", ""), answer
