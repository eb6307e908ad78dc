"""The five lessons: each runs unchanged and reproduces the figures of its text, which it compares with its own."""

from __future__ import annotations

import io
import re
import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import ROOT

LESSONS = ROOT / "docs" / "lessons"
COMPARISONS = {1: 12, 2: 14, 3: 11, 4: 7, 5: 0}
"""Comparisons with the figures of its text that each lesson prints."""
PICTURES = sorted(path.name for path in (LESSONS / "images").glob("*.png"))


class Ran(NamedTuple):
    """The variables and the output of a lesson."""

    variables: dict[str, Any]
    printed: str


Lesson = Callable[[int], Ran]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder to which the lessons write their pictures."""
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def lesson(images: Path) -> Lesson:
    """Return a function that runs a lesson once for all tests, e.g. `lesson(3)`."""

    @cache
    def run(number: int) -> Ran:
        (path,) = LESSONS.glob(f"{number}_*.py")
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, torch.random.fork_rng(), redirect_stdout(printed):
            patch.setenv("LESSON_IMAGES", str(images))
            patch.syspath_prepend(LESSONS)
            variables = runpy.run_path(str(path), run_name="__main__")
        sys.modules.pop("figures", None)
        return Ran(variables, printed.getvalue())

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("number", "comparisons"), COMPARISONS.items())
def test_lesson_agrees_with_its_text(lesson: Lesson, number: int, comparisons: int) -> None:
    """Guards against a lesson broken by a change of the modules, and against comparisons that are left out."""
    printed = lesson(number).printed
    assert "DIFFERS" not in printed
    assert len(re.findall(r"\bagrees$", printed, re.MULTILINE)) == comparisons


@pytest.mark.parametrize("number", range(1, 6))
def test_explanations_are_printed_once_and_in_order(lesson: Lesson, number: int) -> None:
    """Guards against figures without an explanation, or before it."""
    (path,) = LESSONS.glob(f"{number}_*.py")
    source, printed = path.read_text(encoding="utf-8"), lesson(number).printed
    cells = re.findall(r"^# %% \[markdown\]\n((?:#.*\n)+)", source, re.MULTILINE)
    explanations = [re.sub(r"^# ?", "", cell, flags=re.MULTILINE).strip() for cell in cells]
    places = [printed.index(explanation) for explanation in explanations]
    assert places == sorted(places)
    assert all(printed.count(explanation) == 1 for explanation in explanations)
    assert len(cells) == source.count("# %% [markdown]") > 4
    pictures = re.findall(r"^picture: (.*)$", printed, re.MULTILINE)
    assert pictures
    assert all(Path(name).is_file() for name in pictures)


def test_lesson_1_maps_are_causal_softmax_rows(lesson: Lesson) -> None:
    """Guards against attention to the future, rows that do not sum to 1, and the text's .33 instead of 1/3."""
    values = lesson(1).variables
    assert (values["upper_triangle"] == 0).all()
    assert values["upper_triangle"].shape == (6,)
    np.testing.assert_allclose(np.concatenate(values["row_sums"]), 1, atol=1e-6)
    np.testing.assert_allclose(values["cross_weights"][0, 2], 1 / 3, atol=1e-6)


def test_lesson_1_score_variance_equals_width(lesson: Lesson) -> None:
    """Guards against a wrong measurement of the reason for √D: without scaling, the largest weight must be much
    larger."""
    values = lesson(1).variables
    for width, (raw, scaled) in values["variances"].items():
        assert raw == pytest.approx(width, rel=0.05)
        assert scaled == pytest.approx(1, rel=0.05)
    assert values["largest_weights"][0] > 2 * values["largest_weights"][1]


def test_lesson_1_kernels_agree(lesson: Lesson) -> None:
    """Guards against calling two different functions "the same function"."""
    values = lesson(1).variables
    assert all(max(pair) < 1e-5 for pair in values["differences"].values())
    assert min(min(pair) for pair in values["differences"].values()) > 0  # two different computations


def test_lesson_2_kernel_and_module_give_the_same_result(lesson: Lesson) -> None:
    """Guards against a fused kernel that differs from the steps, and a second head that contributes."""
    values = lesson(2).variables
    torch.testing.assert_close(values["fused"], values["result"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(values["module_output"][:, 4:], 0, atol=0)


def test_lesson_3_arrays_agree_with_attention(lesson: Lesson) -> None:
    """Guards against a first token that attends to later tokens, a mask of 1 that changes the weights, and attention
    that rounds float64 to float32."""
    values = lesson(3).variables
    np.testing.assert_allclose(values["outputs"], values["ours"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(values["ours"][0], values["v"][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(values["our_weights"].sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(values["plus_one"], values["weights"], rtol=0, atol=1e-12)


def test_lesson_3_measures_the_variance_over_many_draws(lesson: Lesson) -> None:
    """Guards against a wrong claim that scaling divides the variance by d."""
    values = lesson(3).variables
    assert values["mean_variance"] == pytest.approx(8 * 15 / 16, rel=0.02)
    assert values["mean_scaled_variance"] == pytest.approx(15 / 16, rel=0.02)
    assert 0.01 < values["quieter"] < 0.1


TOKENS_4: dict[str, dict[int, float]] = {
    "I": {0: 1.0},
    "prefer": {1: 1.0},
    "apple": {1: 0.1, 2: 1.0, 3: 0.2, 6: 0.1},
    "over": {3: 1.0},
    "orange": {1: 0.1, 2: 1.0, 3: 0.2, 6: 0.3},
    "because": {4: 1.0, 6: 0.1},
    "it": {2: 0.4, 5: 1.0, 6: 0.1},
    "is": {4: 0.2},
    "less": {4: 0.1, 6: 0.4, 7: 1.0},
    "acidic": {2: 0.2, 4: 0.4, 6: 1.0},
}
HEADS_4 = {
    "fruit/category": [2],
    "preference/comparison": [1, 3],
    "explanation/acidity": [4, 6, 7],
    "pronoun/coreference": [2, 5],
}


def by_the_text(features: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Compute weights and outputs of a head with the text's NumPy formula and a projection that selects features."""
    x = np.array([[token.get(feature, 0.0) for feature in range(8)] for token in TOKENS_4.values()])
    projection = np.zeros((8, len(features)))
    for column, feature in enumerate(features):
        projection[feature, column] = 1.0
    query = key = value = x @ projection
    scores = query @ key.T / np.sqrt(query.shape[-1])
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return weights, weights @ value


def test_lesson_4_single_head_follows_the_formula(lesson: Lesson) -> None:
    """Guards against a mistyped feature, and a projection of the module that is not the identity."""
    values = lesson(4).variables
    weights, output = by_the_text(list(range(8)))
    assert list(TOKENS_4) == values["WORDS"]
    np.testing.assert_allclose(values["single_weights"], weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(values["single_output"], output, rtol=0, atol=1e-6)
    np.testing.assert_allclose(values["single_strength"], np.linalg.norm(output, axis=1), rtol=0, atol=1e-6)


def test_lesson_4_four_heads_follow_the_formula(lesson: Lesson) -> None:
    """Guards against heads scaled by the model's width instead of the head width."""
    values = lesson(4).variables
    expected = {name: by_the_text(features) for name, features in HEADS_4.items()}
    assert list(values["head_weights"]) == list(expected)
    for name, (weights, _) in expected.items():
        np.testing.assert_allclose(values["head_weights"][name], weights, rtol=0, atol=1e-6)
    concatenated = np.concatenate([output for _, output in expected.values()], axis=1)
    assert values["multi_output"].shape == (10, 8)
    np.testing.assert_allclose(values["multi_output"], concatenated, rtol=0, atol=1e-6)
    np.testing.assert_allclose(values["multi_strength"], np.linalg.norm(concatenated, axis=1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(values["from_recording"], values["multi_strength"], rtol=0, atol=1e-6)
    assert values["asked"]["it", "apple"] == pytest.approx(expected["pronoun/coreference"][0][6, 2], abs=1e-6)
    assert values["asked"]["it", "apple"] == pytest.approx(values["asked"]["it", "orange"], abs=1e-6)
    assert sum(values["votes"].values()) == pytest.approx(values["all_votes"], abs=1e-6)
    assert abs(values["votes"]["pronoun/coreference"]) < 1e-6 < 0.01 < values["votes"]["explanation/acidity"]


def test_lesson_5_nouns_attend_to_their_adjectives(lesson: Lesson) -> None:
    """Guards against a hand-made head that attends to the wrong words or to the future."""
    weights = lesson(5).variables["hand_weights"]
    shy, blue, bird, old, barns = 1, 2, 3, 5, 6
    assert weights[bird, [shy, blue]].sum() > 0.99
    assert weights[bird, blue] > weights[bird, shy] > 0.2
    assert weights[barns, old] > 0.9
    assert (weights.triu(1) == 0).all()


def test_lesson_5_head_contributions_sum_to_the_output(lesson: Lesson) -> None:
    """Guards against value rows or output columns assigned to the wrong head."""
    values = lesson(5).variables
    torch.testing.assert_close(values["added"].sum(dim=0), values["module_output"], rtol=0, atol=1e-5)
    assert values["module_output"].abs().max() > 0.1
    assert values["ranks"] == [8, 8, 8]


def test_lesson_5_model_predicts_the_verb_by_the_adjective(lesson: Lesson) -> None:
    """Guards against a hand-made forward pass that differs from the model's, and a model that has learned nothing."""
    values = lesson(5).variables
    assert values["next_word"] == "digs"
    torch.testing.assert_close(values["logits"], values["gpt"](values["prompt"]).detach())
    assert [row.index(max(row)) for row in values["of_verbs"]] == [0, 0, 1, 1, 2, 2]
    assert min(max(row) for row in values["of_verbs"]) > 0.9
    weights = values["adjective_weights"].values()
    assert [sum(each) for each in values["shares"]] == pytest.approx(values["whole_differences"], abs=1e-4)
    torch.testing.assert_close(values["lens"][-1], torch.tensor(values["of_verbs"][0]), rtol=0, atol=1e-5)
    assert float(values["lens"][0].max()) < 0.5  # the embedding alone does not know which verb
    assert all(max(heads) > 0.35 for heads in weights)  # of three possible positions


def test_lesson_5_masks_of_the_three_attentions(lesson: Lesson) -> None:
    """Guards against a causal mask that leaks, and a causal mask in the cross-attention."""
    values = lesson(5).variables
    assert max(values["prefix_differences"]) < 1e-4
    assert min(values["source_changes"]) > 1e-3
    assert max(values["target_changes"][:3]) < 1e-6 < 1e-3 < values["target_changes"][3]


def test_index_shows_the_pictures_that_lessons_draw(lesson: Lesson, images: Path) -> None:
    """Guards against a picture that is missing from the index, or that no lesson draws any more."""
    for number in range(1, 6):
        lesson(number)
    embedded = re.findall(r"\]\(images/([^)]+)\)", (LESSONS / "README.md").read_text(encoding="utf-8"))
    assert sorted(embedded) == PICTURES == sorted(path.name for path in images.iterdir())
    assert sum((LESSONS / "images" / name).stat().st_size for name in PICTURES) < 450_000


@pytest.mark.parametrize("name", PICTURES)
def test_committed_picture_is_current(lesson: Lesson, images: Path, name: str) -> None:
    """Guards against a lesson that was changed without redrawing its pictures. Compared at low resolution, because
    fonts differ by a pixel or two."""
    lesson(int(name[0]))
    drawn, committed = (Image.open(folder / name) for folder in (images, LESSONS / "images"))
    np.testing.assert_allclose(drawn.size, committed.size, rtol=0.02)
    seen = [
        np.asarray(image.convert("RGB").resize((60, 40), Image.Resampling.BOX), float) for image in (drawn, committed)
    ]
    assert np.abs(seen[0] - seen[1]).max() < 120  # of 255; a shift by 2 pixels gives 45, another cell colour 200


def test_compare_detects_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a comparison that accepts every figure."""
    compare = runpy.run_path(str(LESSONS / "figures.py"))["compare"]
    compare("close", 0.4562, 0.45624)
    compare("off", 0.4562, 0.45626)
    compare("matrix", [[1.0, 0.0]], [[0.9998, 0.0002]])
    verdicts = re.findall(r"agrees|DIFFERS", capsys.readouterr().out)
    assert verdicts == ["agrees", "DIFFERS", "DIFFERS"]
