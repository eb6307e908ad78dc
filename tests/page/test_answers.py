"""A page answers questions about its models as the tab's Python process does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_maps.record.arrays import recording_of_arrays
from tab_answers.worker import replier
from tests.page.asked_models import Asked, PythonAnswers, Question, Subject, asked_in, decoded, export, make_run
from tests.page.conftest import Browser

PROBABILITY, LOSS, EFFECT, LOGIT = 1e-3, 1e-3, 2e-3, 1e-2
"""Largest differences allowed."""
HALF = 1e-3
"""Relative precision of the float16 numbers of Python's recordings, and absolute precision of weights."""

SUBJECTS = {
    "gpt": Subject("gpt"),
    "gpt_grouped": Subject(
        "gpt", {"layers": 3, "heads": 4, "kv_heads": 2, "width": 32, "token_shift": True, "mask_documents": True}
    ),
    "gpt_biased": Subject(
        "gpt",
        {
            "layers": 2,
            "heads": 2,
            "width": 24,
            "norm": "layer",
            "bias": True,
            "position": "learned",
            "output_bias": True,
        },
        recorded=False,
    ),
    "translate": Subject("translate"),
    "translate_crossed": Subject(
        "translate",
        {"layers": 3, "encoder_layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "cross_qk_norm": True},
        both_directions=True,
    ),
    "translate_two_vocabularies": Subject(
        "translate",
        {"layers": 2, "heads": 2, "width": 32, "context": 64, "position": "learned", "norm": "layer"},
        two_vocabularies=True,
    ),
    "translate_post_norm": Subject(
        "translate",
        {
            **{"layers": 2, "heads": 2, "width": 32, "block": "post_norm", "norm": "layer", "bias": True},
            **{"position": "sinusoidal", "output_bias": True, "activation": "swiglu"},
        },
        both_directions=True,
        recorded=False,
    ),
}

STORY, OTHER = "Ken had a pen. He lent it to Emi.", "Emi likes the apple."
SOURCE, TARGET, OTHER_SOURCE = "Emi likes the apple.", "エミはりんごが好きです。", "Emi runs."
EARLY = "weights-00000002"

GPT_QUESTIONS: list[Question] = [
    {"text": STORY},
    {"text": OTHER, "continue": 6},
    {"text": STORY, "removed": [["decoder", 0, 1]]},
    {"text": STORY, "continue": 5, "removed": [["decoder", 0, 0]], "how": "mean", "after": 6},
    {"text": STORY, "removed": [["decoder", 0, None], ["decoder", 0, 1]], "how": "zero", "checkpoint": EARLY},
    {"text": OTHER, "removed": [["decoder", 0, None]], "how": "mean", "checkpoint": "last", "after": 3},
    {"text": "Ken runs.", "patch": {"text": "Ken runs.", "heads": [["decoder", 0, 1]]}},
    {"text": "Ken", "patch": {"text": "Emi", "heads": [["decoder", 0, None]]}},
    {"text": "Ken runs. " * 60, "continue": 5},
    {"text": "Ken saw a 🐈 and\u200b caf\u00e9 …\nTom ran.", "continue": 2},
    {"text": "K"},
    {"text": OTHER, "continue": 20, "temperature": 1.0, "seed": 3},
    {"text": "Ken", "continue": 20, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "seed": 2**40 + 7},
    {"text": STORY, "continue": 8, "temperature": 2, "top_p": 0.5, "top_k": None, "removed": [["decoder", 0, 0]]},
    {"text": OTHER, "continue": 4, "temperature": 0, "seed": 8},
]
TRANSLATE_QUESTIONS: list[Question] = [
    {"source": SOURCE},
    {"source": f"  {SOURCE}\n", "target": f" {TARGET}"},
    {"source": SOURCE, "removed": [["cross", 0, 1]]},
    {"source": SOURCE, "removed": [["encoder", 0, None], ["decoder", 0, 0]], "how": "mean", "after": 8},
    {"source": SOURCE, "target": TARGET, "removed": [["decoder", 0, 1]], "how": "zero", "checkpoint": EARLY},
    {"source": OTHER_SOURCE, "target": TARGET, "patch": {"text": OTHER_SOURCE, "heads": [["encoder", 0, 1]]}},
    {"source": SOURCE, "patch": {"text": SOURCE, "target": TARGET, "heads": [["cross", 0, 1]]}},
    {"source": "エミは鯨と🐈\u200bが好き。", "target": TARGET},
    {"source": f"{SOURCE} Ken reads.", "target": ""},
    {"source": SOURCE, "beam_size": 1},
    {"source": SOURCE, "beam_size": 6, "removed": [["cross", 0, 1]]},
    {"source": OTHER_SOURCE, "beam_size": 2, "patch": {"text": OTHER_SOURCE, "heads": [["decoder", 0, 1]]}},
    {"source": SOURCE, "target": TARGET, "beam_size": 1},
]
BACK: list[Question] = [
    {"source": "エミは走る。", "reverse": True},
    {"source": "エミは走る。", "target": "Emi runs.", "reverse": True, "removed": [["cross", 0, 0]]},
]
REFUSED: list[Question] = [
    {"text": "x" * 2001},
    {"text": " \n"},
    {"text": "\u3000\x1c"},
    {"text": "\ufeff"},
    {"text": 3},
    {},
    {"text": "x", "source": "x"},
    {"text": "x", "target": "y"},
    {"source": "x"},
    {"text": "x"},
    {"text": "x", "reverse": True},
    {"source": "x", "reverse": 1},
    {"source": "x", "reverse": True},
    {"text": "x", "continue": 201},
    {"text": "x", "temperature": "hot"},
    {"text": "x", "temperature": None},
    {"text": "x", "temperature": 0.0005, "top_p": 0, "top_k": 0, "seed": -1},
    {"text": "x", "temperature": 1001, "top_p": 1.5, "seed": 10**19},
    {"text": "x", "top_k": 1.5},
    {"text": "x", "seed": True},
    {"text": "x", "beam_size": 4},
    {"source": "x", "top_p": 0.5, "temperature": 0},
    {"source": "x", "beam_size": 0},
    {"source": "x", "beam_size": 1001},
    {"text": "x", "checkpoint": "../../x"},
    {"text": "x", "removed": [["decoder", 0, 9]]},
    {"text": "x", "removed": [["cross", 7, None]]},
    {"text": "x", "removed": [["decoder", "0", None]]},
    {"text": "x", "removed": [["decoder", 0, 1]] * 4097},
    {"text": "x", "how": "median"},
    {"text": "x", "patch": {"text": STORY, "heads": [["decoder", 0, 1]]}},
    {"text": "x", "patch": {"text": "y", "heads": []}},
    {"text": "x", "patch": {"text": "y", "head": []}},
    {"text": "x", "continue": 1, "patch": {"text": "y", "heads": [["decoder", 0, 1]]}},
    {"source": "Emi runs. " * 60},
    {"source": SOURCE, "target": "エミは走る。" * 60},
    {"source": SOURCE, "target": TARGET, "patch": {"text": SOURCE, "target": "エミ。", "heads": [["cross", 0, 1]]}},
    {"source": SOURCE, "patch": {"text": OTHER_SOURCE, "target": TARGET, "heads": [["cross", 0, 1]]}},
    {"source": SOURCE, "removed": [["encoder", 9, 0]]},
]
CIRCUITS: dict[str, list[Question]] = {
    "gpt": [
        {"circuit": ["decoder", 0, 1]},
        {"circuit": ["decoder", -1, 0], "distance": 5},
        {"circuit": ["decoder", 0, 0], "token": "the"},
        {"circuit": ["decoder", 0, 0], "token": " TH", "checkpoint": EARLY},
    ],
    "translate": [
        {"circuit": ["decoder", -1, 1], "distance": 0},
        {"circuit": ["cross", -1, 1]},
        {"circuit": ["cross", 0, 0], "token": "Emi"},
        {"circuit": ["cross", 0, 0], "token": "の"},
        {"circuit": ["encoder", -1, 1], "distance": -3},
        {"circuit": ["encoder", 0, 0], "distance": 2, "token": "は"},
    ],
}
REFUSED_CIRCUITS: list[Question] = [
    {"circuit": ["decoder", 0, None]},
    {"circuit": "all"},
    {"circuit": ["decoder", 99, 0]},
    {"circuit": ["decoder", 0, 0], "distance": -1},
    {"circuit": ["decoder", 0, 0], "distance": 10**9},
    {"circuit": ["decoder", 0, 0], "token": "qqqqqq"},
    {"circuit": ["decoder", 0, 0], "token": "x" * 200},
    {"circuit": ["decoder", 0, 0], "checkpoint": "../x"},
]


class Subjects:
    """The runs, made when they are first needed, and exported once."""

    def __init__(self, trained: Path, folder: Path) -> None:
        self.trained, self.folder = trained, folder
        self.reply = replier()
        self.run = cache(self.run)  # type: ignore[method-assign]
        self.asked = cache(self.asked)  # type: ignore[method-assign]
        self.exported: set[str] = set()

    def run(self, name: str) -> Path:
        """Return the folder of a run."""
        return make_run(SUBJECTS[name], self.trained, self.folder / name)

    def python(self, name: str) -> PythonAnswers:
        """Return who answers in Python."""
        answers = self.folder / f"{name}-answers"
        answers.mkdir(exist_ok=True)
        return PythonAnswers(self.run(name), self.reply, answers)

    def asked(self, name: str) -> list[Asked]:
        """Return Python's answers to all questions about texts."""
        python = self.python(name)
        return [python.ask(question) for question in questions_to(name)]

    def browser(self, browser: Browser, name: str, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the answers in the browser."""
        if name not in self.exported:
            export(browser, name, self.run(name))
            self.exported.add(name)
        return asked_in(browser, name, questions)


def questions_to(name: str) -> list[Question]:
    subject = SUBJECTS[name]
    if subject.task == "gpt":
        return GPT_QUESTIONS
    return TRANSLATE_QUESTIONS + (BACK if subject.both_directions else [])


def circuits_of(name: str) -> list[Question]:
    """Return the questions about heads; layer -1 stands for the last one."""
    subject = SUBJECTS[name]
    options = subject.model or {}
    layers = {"decoder": options.get("layers", 1)}
    layers |= {"cross": layers["decoder"], "encoder": options.get("encoder_layers", layers["decoder"])}
    questions = []
    for question in CIRCUITS[subject.task]:
        kind, layer, head = question["circuit"]
        questions.append(question | {"circuit": [kind, layers[kind] + layer if layer < 0 else layer, head]})
    return questions


@pytest.fixture(scope="session")
def subjects(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Subjects:
    """Return the runs."""
    return Subjects(trained, tmp_path_factory.mktemp("subjects"))


@pytest.mark.parametrize("name", SUBJECTS)
def test_answers_and_recordings_are_those_of_python(subjects: Subjects, browser: Browser, name: str) -> None:
    """Guards every number that a page shows of a text: another one would be taken for what the model does."""
    questions = [{"run": name} | question for question in questions_to(name)]
    given = subjects.browser(browser, name, [{"method": "ask", "question": question} for question in questions])
    for question, expected, actual in zip(questions, subjects.asked(name), given, strict=True):
        context = f"{name}: {question}"
        if expected.refusal is not None:
            assert actual.get("refusal") == expected.refusal, context
            continue
        assert "result" in actual, (context, actual)
        answers, recordings = actual["result"]["answers"], actual["result"]["recordings"]
        names = names_after(int(question.get("after", 0)))[-len(answers) :]
        assert [answer["recording"] for answer in answers] == list(recordings) == names, context
        whole = names[0] if len(names) == 2 else None
        assert answers[-1]["whole_recording"] == whole, context
        assert answers[-1]["asked"] == {key: question[key] for key in ("removed", "how", "patch") if key in question}
        for python, javascript in zip(expected.answers, answers, strict=True):
            compare_answers(python, javascript, context)
        for (meta, tensors), (id_, recording) in zip(expected.recordings, recordings.items(), strict=True):
            compare_meta({"run": name, "recording": id_} | meta, recording["meta"], context)
            compare_tensors(tensors, decoded(recording["tensors"]), context)
            bars = decoded(recording["tensors"])
            sums = bars["0|||attribution"].sum(axis=1)
            np.testing.assert_allclose(sums, bars["0|||logits"], atol=LOGIT, rtol=1e-4, err_msg=context)
        written = [part["written"] for part in actual["progress"] if "written" in part]
        if question.get("continue") and answers[0]["written"]:
            assert written[-1] == answers[0]["written"], context


def names_after(last: int) -> list[str]:
    """Return the names of the two recordings of a question, of the whole model first; `last`: the last number given."""
    return [f"asked_{last + last % 2 + place:05d}" for place in (1, 2)]


def compare_answers(expected: dict[str, Any], actual: dict[str, Any], context: str) -> None:
    plain = ("task", "checkpoint", "step", "tokens", "predicts", "source", "typed", "notes", "written", "decoding")
    for key in plain:
        assert actual[key] == expected[key], (key, context)
    surplus = {"run", "recording", "whole_recording", "asked", "ids"}
    assert actual.keys() - surplus == expected.keys() - surplus, context
    assert actual["losses"] == pytest.approx(expected["losses"], abs=LOSS), context
    if expected["whole"] is None:
        assert actual["whole"] is None
    else:
        assert actual["whole"].keys() == expected["whole"].keys()
        assert actual["whole"]["written"] == expected["whole"]["written"], context
        assert actual["whole"]["losses"] == pytest.approx(expected["whole"]["losses"], abs=LOSS), context
    assert len(actual["next"]) == len(expected["next"])
    for row, rows in enumerate(zip(expected["next"], actual["next"], strict=True)):
        compare_candidates(*rows, f"{context}, row {row}")


def compare_candidates(expected: list[list[Any]], actual: list[list[Any]], context: str) -> None:
    """Compare tokens with their probabilities; the order of nearly equal ones may differ."""
    pieces = {token: (piece, *chances) for token, piece, *chances in expected}
    assert [chances for _, _, *chances in actual] == [
        pytest.approx(chances, abs=PROBABILITY) for _, _, *chances in expected
    ], context
    for token, piece, *chances in actual:
        if token in pieces:
            assert pieces[token][0] == piece, context
            assert chances == pytest.approx(list(pieces[token][1:]), abs=PROBABILITY), context
    missing = [chances[0] for token, (_, *chances) in pieces.items() if token not in {entry[0] for entry in actual}]
    assert all(chance == pytest.approx(expected[-1][2], abs=1e-4) for chance in missing), context


def compare_meta(expected: dict[str, Any], actual: dict[str, Any], context: str) -> None:
    assert actual.keys() | {"about"} == expected.keys(), context  # the page itself says it of its models
    for key in ("run", "recording", "step", "kinds", "parts", "scores", "layer_numbers", "labels"):
        assert actual[key] == expected[key], (key, context)
    if expected["loss"] is None:
        assert actual["loss"] is None, context
    else:
        assert actual["loss"] == pytest.approx(expected["loss"], abs=LOSS), context
    assert {name: kinds.keys() for name, kinds in actual["measures"].items()} == {
        name: kinds.keys() for name, kinds in expected["measures"].items()
    }, context
    (sample,), (other,) = expected["samples"], actual["samples"]
    keys = len((sample["source"] or sample["reads"])["ids"])
    for name, kinds in expected["measures"].items():
        atol = 2 / keys if name == "coverage" else 2e-3  # Python's float16 makes nearly equal weights equal
        for kind, layers in kinds.items():
            np.testing.assert_allclose(actual["measures"][name][kind], layers, atol=atol, err_msg=f"{name} {context}")
    assert other.keys() == sample.keys(), context
    exact = sample.keys() - {"losses", "predictions", "lens"}
    assert {key: other[key] for key in exact} == {key: sample[key] for key in exact}, context
    assert other["losses"] == pytest.approx(sample["losses"], abs=LOSS), context
    assert len(other["lens"]) == len(sample["lens"])
    layers = zip([*sample["lens"], sample["predictions"]], [*other["lens"], other["predictions"]], strict=True)
    for layer, rows in enumerate(layers):
        for row, candidates in enumerate(zip(*rows, strict=True)):
            compare_candidates(*candidates, f"{context}, layer {layer}, row {row}")


def compare_tensors(expected: dict[str, np.ndarray], actual: dict[str, np.ndarray], context: str) -> None:
    assert actual.keys() == expected.keys(), context
    for key, numbers in expected.items():
        tolerance = LOGIT if key.endswith(("attribution", "logits")) else HALF
        np.testing.assert_allclose(actual[key], numbers, atol=tolerance, rtol=HALF, err_msg=f"{key} {context}")


@pytest.mark.parametrize("name", ["gpt_grouped", "gpt_biased", "translate_crossed"])
def test_the_effects_of_heads_are_those_of_python(subjects: Subjects, browser: Browser, name: str) -> None:
    """Guards against effects of another head, text, checkpoint or replacement."""
    asked = [{"run": name} | question for question in questions_to(name)[:5]]
    questions: list[dict[str, Any]] = [{"method": "ask", "question": question} for question in asked]
    pairs = [(place, how) for place in (0, 4) for how in ("zero", "mean")]
    questions += [{"method": "effects", "question": {"run": name, "how": how}, "about": place} for place, how in pairs]
    given = subjects.browser(browser, name, questions)[len(asked) :]
    python = subjects.python(name)
    for (place, how), actual in zip(pairs, given, strict=True):
        expected, context = python.effects(how, subjects.asked(name)[place]), f"{name} {how} {place}"
        result = actual["result"]
        assert result.keys() == expected.keys()
        assert [result[key] for key in ("predicts", "heads", "left")] == [
            expected[key] for key in ("predicts", "heads", "left")
        ], context
        np.testing.assert_allclose(result["whole"], expected["whole"], atol=EFFECT, err_msg=context)
        np.testing.assert_allclose(result["losses"], expected["losses"], atol=EFFECT, err_msg=context)
        assert actual["progress"][-1] == {"done": len(result["heads"]), "of": len(result["heads"])}


@pytest.mark.parametrize("name", SUBJECTS)
def test_circuits_are_those_of_python(subjects: Subjects, browser: Browser, name: str) -> None:
    """Guards against circuits of another head, side or distance, and norms that are left out."""
    questions = circuits_of(name)
    given = subjects.browser(browser, name, [{"method": "circuits", "question": question} for question in questions])
    for question, actual in zip(questions, given, strict=True):
        reply = subjects.python(name).line(question)
        if "error" in reply:
            assert actual == {"refusal": reply["error"]}
            continue
        compare_circuits(reply["ok"], actual["result"], f"{name}: {question}")


def compare_circuits(expected: dict[str, Any], actual: dict[str, Any], context: str) -> None:
    assert actual.keys() == expected.keys()
    assert [actual[key] for key in ("checkpoint", "step", "rotary")] == [
        expected[key] for key in ("checkpoint", "step", "rotary")
    ], context
    for key in ("copying", "own"):
        assert actual[key] == (None if expected[key] is None else pytest.approx(expected[key], abs=1e-2)), (
            key,
            context,
        )
    for side in ("attends", "writes"):
        python, javascript = expected[side], actual[side]
        if python is None:
            assert javascript is None, context
            continue
        assert javascript.keys() == python.keys(), context
        if python["table"] is None:
            assert javascript["table"] is None, context
        else:
            assert [javascript["table"][key] for key in ("rows", "columns")] == [
                python["table"][key] for key in ("rows", "columns")
            ]
            largest = np.abs(python["table"]["values"]).max()
            np.testing.assert_allclose(javascript["table"]["values"], python["table"]["values"], atol=largest / 100)
        for key in python.keys() - {"table"}:
            compare_pairs(python[key], javascript[key], f"{side} {key} {context}")


def compare_pairs(expected: list[list[Any]], actual: list[list[Any]], context: str) -> None:
    """Compare the strongest pairs; near the end of the list, nearly equal ones may differ."""
    assert len(actual) == len(expected), context
    if not expected:
        return
    tolerance = max(abs(value) for _, _, value in expected) / 100
    assert [value for *_, value in actual] == pytest.approx([value for *_, value in expected], abs=tolerance), context
    last = expected[-1][2] + tolerance
    clear, others = ({(row, column) for row, column, value in pairs if value > last} for pairs in (expected, actual))
    assert clear <= {(row, column) for row, column, _ in actual}, context
    assert others <= {(row, column) for row, column, _ in expected}, context


def test_small_vocabularies_have_whole_tables(
    subjects: Subjects, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against tables whose labels belong to other tokens."""
    name, question = "gpt_grouped", {"circuit": ["decoder", 1, 2]}
    (before,) = subjects.browser(browser, name, [{"method": "circuits", "question": question}])
    file = browser.files / f"{name}.json"
    text = file.read_text()
    monkeypatch.setattr("tab_answers.circuits.LARGEST_TABLE", 10_000)
    file.write_text(text.replace('"largest_table": 300', '"largest_table": 10000'))
    (actual,) = subjects.browser(browser, name, [{"method": "circuits", "question": question}])
    file.write_text(text)
    assert before["result"]["attends"]["table"] is None
    compare_circuits(subjects.python(name).line(question)["ok"], actual["result"], name)


def test_a_table_of_tokens_that_copies(browser: Browser) -> None:
    """Guards the strongest entries and the share on the diagonal beyond the first block of rows."""
    generator = np.random.default_rng(0)
    columns = generator.normal(size=(1000, 8)).astype(np.float32)
    signed = generator.choice([-1, 1], size=(1000, 1)) * generator.uniform(
        1, 2, size=(1000, 1)
    )  # no two entries are equal
    rows = columns * signed.astype(np.float32)
    body = """
    const {TokenTable} = await import('/engine/answers/token_table.js');
    const [rows, columns, count] = values;
    const table = new TokenTable(Float32Array.from(rows.flat()), Float32Array.from(columns.flat()), rows[0].length);
    const part = table.part([999, 3], [0, 500, 999]);
    return {...table.survey(count), part: Array.from(part.values()), copying: table.sumOfEigenvalues()};
    """
    given = browser.run(body, rows.tolist(), columns.tolist(), 30)
    table = rows @ columns.T
    order = np.argsort(-table, axis=None)[:30]
    strongest = [[int(place) // 1000, int(place) % 1000] for place in order]
    assert [entry[:2] for entry in given["strongest"]] == strongest
    assert [value for *_, value in given["strongest"]] == pytest.approx(table.ravel()[order].tolist(), rel=1e-5)
    share = float((table.argmax(axis=1) == np.arange(1000)).mean())
    assert share > 0.1
    assert given["onDiagonal"] == share
    assert given["part"] == pytest.approx(table[np.ix_([999, 3], [0, 500, 999])].ravel().tolist(), rel=1e-4)
    eigenvalues = np.linalg.eigvals(columns.astype(np.float64).T @ rows.astype(np.float64))
    assert given["copying"] == pytest.approx(float(eigenvalues.sum().real / np.abs(eigenvalues).sum()), abs=1e-5)


@pytest.mark.parametrize("name", ["gpt", "translate"])
def test_refused_questions_get_the_sentences_of_python(subjects: Subjects, browser: Browser, name: str) -> None:
    """Guards against a failed script in place of a sentence, and an answer to a question that Python refuses."""
    asked = [{"method": "ask", "question": question} for question in REFUSED]
    asked += [{"method": "circuits", "question": question} for question in REFUSED_CIRCUITS]
    given = subjects.browser(browser, name, asked)
    python = subjects.python(name)
    refused = set()
    for question, actual in zip(REFUSED + REFUSED_CIRCUITS, given, strict=True):
        expected = python.line(question)["error"] if "circuit" in question else python.ask(question).refusal
        assert actual.get("refusal") == expected, question
        refused |= {expected} - {None}
    assert len(refused) > 25


def test_a_checkpoint_that_the_page_lacks_is_refused(subjects: Subjects, browser: Browser) -> None:
    """Guards against an answer by other weights, and the list from which a user chooses some."""
    questions = [
        {"method": "ask", "question": {"text": "x", "checkpoint": "step-00000077"}},
        {"method": "ask", "question": {"text": "x", "colour": "red"}},
        {"method": "ask", "question": {"text": "x", "after": -1}},
        {"method": "effects", "question": {"answer": None, "how": "zero"}},
        {"method": "checkpoints", "question": {"run": "gpt"}},
    ]
    absent, unknown, after, effects, listed = subjects.browser(browser, "gpt", questions)
    assert absent["refusal"] == f"step-00000077: no such checkpoint; available: {EARLY}, step-00000006"
    assert unknown["refusal"] == "'colour' is not part of a question"
    assert after["refusal"] == "'after' must be the number of an answer, or 0"
    assert effects["refusal"].endswith("ask again")
    assert listed["result"] == {
        "checkpoints": [
            {"name": EARLY, "step": 2, "best": False, "last": False},
            {"name": "step-00000006", "step": 6, "best": True, "last": True},
        ],
        "both_directions": False,
    }


def test_a_text_is_shown_while_it_is_written(subjects: Subjects, browser: Browser) -> None:
    """Guards against a text that appears only as a whole, and parts of it that belong to the other model."""
    written: Question = {"text": "Ken", "continue": 20, "temperature": 1, "removed": [["decoder", 1, None]]}
    (given,) = subjects.browser(browser, "gpt_grouped", [{"method": "ask", "question": written}])
    answer = given["result"]["answers"][-1]
    whole, without = ([part[key] for part in given["progress"] if key in part] for key in ("written", "rewritten"))
    assert len(whole) == len(answer["tokens"]) - answer["typed"] > 2
    assert (whole[-1], without[-1]) == (answer["whole"]["written"], answer["written"])
    assert whole[-1] != without[-1]
    assert all(text in whole[-1] for text in whole[:3])
    greedy = {"source": SOURCE, "beam_size": 1}
    (given,) = subjects.browser(browser, "translate_crossed", [{"method": "ask", "question": greedy}])
    *parts, answers = given["progress"]
    assert parts[-1] == {"written": answers["answers"][0]["written"]}


def distributions(rows: np.ndarray) -> np.ndarray:
    """Return rows that sum to 1."""
    return rows / rows.sum(axis=1, keepdims=True)


def test_labels_of_heads_are_those_of_python(browser: Browser) -> None:
    """Guards the names of heads where a run has none that were measured on more examples."""
    size, generator = 6, np.random.default_rng(1)
    one = np.eye(size)
    previous = np.eye(size, k=-1)
    previous[0, 0] = 1
    first = np.zeros((size, size))
    first[:, 0] = 1
    even = np.tril(np.ones((size, size)))
    noise = generator.random((size, size))
    maps = {
        "decoder": [previous, first, one, even, one + previous, np.tril(noise) ** 3],
        "encoder": [one, previous, np.ones((size, size)), noise],
        "cross": [one, one[::-1], np.ones((size, size)), first, noise**6],
    }
    sharp = {
        kind: np.stack([np.stack([distributions(head + 1e-3 * np.tril(noise)) for head in heads])] * 2)
        for kind, heads in maps.items()
    }
    text, source = ["<s>", "▁a", "b", "▁c", "d", "."], ["▁u", "v", "▁w", "x", "!", "</s>"]
    recording = recording_of_arrays(sharp, text, source)
    (sample,) = recording.samples
    body = """
    const {headLabels, headMeasures} = await import('/engine/answers/head_measures.js');
    const {rollout} = await import('/engine/answers/rollout.js');
    const [maps, special] = values;
    const tensor = ({numbers, shape}) => ({numbers: Float32Array.from(numbers), shape});
    const layers = Object.fromEntries(Object.entries(maps).map(([kind, tensors]) => [kind, tensors.map(tensor)]));
    const measures = headMeasures(layers, special);
    const mixed = ['encoder', 'decoder'].map((kind) => [kind, Array.from(rollout(layers[kind]).numbers)]);
    return {measures, labels: headLabels(measures), rollouts: Object.fromEntries(mixed)};
    """
    layers = {
        kind: [{"numbers": heads.ravel().tolist(), "shape": heads.shape} for heads in weights.astype(np.float16)]
        for kind, weights in sharp.items()
    }
    assert sample.source is not None
    marks = {"decoder": sample.reads.special, "encoder": sample.source.special, "cross": sample.source.special}
    given = browser.run(body, layers, {kind: list(map(int, special)) for kind, special in marks.items()})
    assert given["labels"] == recording.labels
    named = {label for layers in recording.labels.values() for heads in layers for label in heads}
    assert named >= {"", "previous token", "first token", "diagonal", "alignment", "broad"}
    for name, kinds in recording.measures.items():
        for kind, expected in kinds.items():
            np.testing.assert_allclose(given["measures"][name][kind], expected, atol=2e-5, err_msg=f"{name} {kind}")
    assert given["measures"].keys() == recording.measures.keys()
    for kind, numbers in given["rollouts"].items():
        np.testing.assert_allclose(numbers, sample.rollout[kind].ravel(), atol=HALF)


def test_eigenvalues_are_those_of_lapack(browser: Browser) -> None:
    """Guards copying scores against an algorithm that fails for some matrices."""
    generator = np.random.default_rng(0)
    matrices = [generator.normal(size=(size, size)) for size in (1, 2, 3, 5, 16, 48, 64)]
    matrices += [generator.normal(size=(32, 3)) @ generator.normal(size=(3, 32)), np.roll(np.eye(9), 1, 0)]
    matrices += [np.zeros((4, 4)), np.diag([1.0, 1.0], 1), generator.normal(size=(12, 12)) * 10.0 ** np.arange(12)]
    body = """
    const {eigenvalues} = await import('/engine/answers/eigenvalues.js');
    return values[0].map((matrix) => eigenvalues(Float64Array.from(matrix.flat()), matrix.length));
    """
    for matrix, given in zip(matrices, browser.run(body, [matrix.tolist() for matrix in matrices]), strict=True):
        expected = np.linalg.eigvals(matrix)
        actual = np.array([complex(value["real"], value["imaginary"]) for value in given])
        size = max(np.abs(expected).sum(), 1e-12)
        assert np.abs(actual).sum() == pytest.approx(np.abs(expected).sum(), abs=1e-9 * size + 1e-6)
        assert actual.sum() == pytest.approx(expected.sum(), abs=1e-9 * size + 1e-6)
