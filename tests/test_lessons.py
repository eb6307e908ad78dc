"""The five lessons: each runs unchanged and reproduces the figures of its text. The expected figures are typed here
independently, so that a lesson cannot agree with its own mistake."""

from __future__ import annotations

import io
import re
import runpy
import subprocess
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

from tests.conftest import ROOT, environment

LESSONS = ROOT / "docs" / "lessons"
PICTURES = sorted(path.name for path in (LESSONS / "images").glob("*.png"))


class Ran(NamedTuple):
    """The variables and the output of a lesson."""

    found: dict[str, Any]
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
            found = runpy.run_path(str(path), run_name="__main__")
        sys.modules.pop("figures", None)
        return Ran(found, printed.getvalue())

    return run


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 6))
def test_a_lesson_runs_and_agrees_with_its_text(lesson: Lesson, number: int) -> None:
    """Guards against a lesson broken by a change of the modules."""
    printed = lesson(number).printed
    assert "DIFFERS" not in printed
    assert ("the text says" in printed) == (number < 5)  # the text of lesson 5 contains no figures


@pytest.mark.parametrize("number", range(1, 6))
def test_a_lesson_prints_its_explanations_in_order_and_once(lesson: Lesson, number: int) -> None:
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


@pytest.mark.parametrize(
    ("kind", "query", "key", "percent"),
    [
        ("encoder", "I", "win", 20),
        ("encoder", "win", "I", 50),
        ("encoder", "d", "nah", 30),
        ("decoder", "I", "win", 0),
        ("decoder", "win", "I", 50),
        ("decoder", "d", "nah", 80),
        ("cross", "I", "いいえ", 30),
        ("cross", "win", "勝つ", 80),
        ("cross", "I", "勝つ", 60),
    ],
)
def test_lesson_1_answers_who_attends_to_whom(lesson: Lesson, kind: str, query: str, key: str, percent: float) -> None:
    """Guards against exchanged rows and columns, and the wrong map."""
    assert lesson(1).found["answers"][kind, query, key] == pytest.approx(percent, abs=0.01)


def test_lesson_1_has_maps_as_a_softmax_makes_them(lesson: Lesson) -> None:
    """Guards against attention to the future, rows that do not sum to 1, and the text's .33 instead of 1/3."""
    found = lesson(1).found
    assert (found["upper_triangle"] == 0).all()
    assert found["upper_triangle"].shape == (6,)
    np.testing.assert_allclose(np.concatenate(found["row_sums"]), 1, atol=1e-6)
    np.testing.assert_allclose(found["cross_weights"][0, 2], 1 / 3, atol=1e-6)


def test_lesson_1_measures_that_the_variance_of_a_score_is_the_width(lesson: Lesson) -> None:
    """Guards against a wrong measurement of the reason for √D: without scaling, the largest weight must be much
    larger."""
    found = lesson(1).found
    for width, (raw, scaled) in found["variances"].items():
        assert raw == pytest.approx(width, rel=0.05)
        assert scaled == pytest.approx(1, rel=0.05)
    assert found["largest_weights"][0] > 2 * found["largest_weights"][1]


def test_lesson_1_finds_no_difference_between_the_kernels(lesson: Lesson) -> None:
    """Guards against calling two different functions "the same function"."""
    found = lesson(1).found
    assert all(max(pair) < 1e-5 for pair in found["differences"].values())
    assert min(min(pair) for pair in found["differences"].values()) > 0  # two different computations


CAUSAL_2 = [[1.0, 0, 0], [0.9546, 0.0454, 0], [0.2563, 0.7156, 0.0281]]
OUTPUT_2 = [[-0.9285, 0.3301, 1.8359, -1.3448], [-0.8652, 0.3082, 1.7268, -1.2445], [0.1138, 0.0517, 0.0270, 0.1831]]
FIGURES_2: dict[str, list[list[float]]] = {
    "T": [
        [0.3367, 0.1288, 0.2345, 0.2303, -1.1229],
        [-0.1863, 2.2082, -0.6380, 0.4617, 0.2674],
        [0.5349, 0.8094, 1.1103, -1.6898, -0.9890],
    ],
    "similarity": [[1.4988, -0.1217, 1.2659], [-0.1217, 5.6025, -0.0653], [1.2659, -0.0653, 6.0074]],
    "naive": [
        [1.2045, 0.9488, 1.8346, -1.8501, -2.9674],
        [-1.1198, 12.3029, -3.6754, 2.6688, 1.6991],
        [3.6518, 4.8810, 7.0084, -9.8898, -7.3800],
    ],
    "K": [[0.6023, -0.7260, 1.1799, 0.2383], [-0.6521, 4.4224, -3.7460, -1.2657], [-0.7106, -4.3429, 4.2984, -2.3664]],
    "Q": [[-1.6964, 1.3355, -0.5133, 0.0674], [1.6595, -0.4445, -0.1917, 1.7729], [-0.1650, -2.9899, -3.8893, 1.2756]],
    "scores": [[-2.5809, 8.8498, -6.9600], [1.5185, -4.5739, -4.2686], [-2.2135, -0.1601, -6.6347]],
    "scaled": [[-1.2905, 4.4249, -3.4800], [0.7593, -2.2869, -2.1343], [-1.1067, -0.0801, -3.3173]],
    "V": [[-0.9285, 0.3301, 1.8359, -1.3448], [0.4676, -0.1512, -0.5678, 0.8648], [0.6143, 2.6772, -1.3256, -3.2423]],
    "weights": CAUSAL_2,
    "our_weights": CAUSAL_2,
    "result": OUTPUT_2,
    "fused": OUTPUT_2,
}


@pytest.mark.parametrize("name", FIGURES_2)
def test_lesson_2_finds_every_matrix_of_the_text(lesson: Lesson, name: str) -> None:
    """Guards against random numbers drawn in another order, a transposed product, and a missing step."""
    np.testing.assert_allclose(lesson(2).found[name], FIGURES_2[name], rtol=0, atol=5.1e-5)


def test_lesson_2_mixes_equally_with_a_query_that_asks_nothing(lesson: Lesson) -> None:
    """Guards against means that differ from the text's."""
    averages = lesson(2).found["averages"]
    np.testing.assert_allclose(averages[1], [0.0752, 1.1685, -0.2018, 0.3460, -0.4278], rtol=0, atol=5.1e-5)
    np.testing.assert_allclose(averages[2], [0.2284, 1.0488, 0.2356, -0.3326, -0.6148], rtol=0, atol=5.1e-5)


def test_lesson_2_gets_the_same_from_the_module(lesson: Lesson) -> None:
    """Guards against matrices loaded into the wrong rows of the fused projection, and a second head that
    contributes."""
    found = lesson(2).found
    np.testing.assert_allclose(found["module_output"][:, :4], OUTPUT_2, rtol=0, atol=5.1e-5)
    np.testing.assert_allclose(found["module_output"][:, 4:], 0, atol=0)
    np.testing.assert_allclose(found["module_weights"][0], CAUSAL_2, rtol=0, atol=5.1e-5)


CAUSAL_3 = [
    [1.0, 0, 0, 0],
    [0.45111887, 0.54888113, 0, 0],
    [0.22436527, 0.31900079, 0.45663394, 0],
    [0.61822085, 0.08185993, 0.14258168, 0.15733755],
]
OUTPUT_3 = [
    [-1.20455614, -0.78141984, -0.60550966, -0.49607676, 0.05358656, 0.31648808, 1.97222775, 0.97455048],
    [-0.66957881, -1.64706996, -0.00307428, -0.63292153, -0.2669993, 0.0131296, 1.32977774, 0.97090339],
    [-0.89506767, -1.53613058, -0.70591991, 0.84266061, -0.00318276, 0.20823676, 1.38968769, 0.86036549],
    [-0.84228483, -0.96535234, -0.71058386, 0.14229459, -0.20809817, 0.29146427, 1.44269616, 0.98682583],
]
FIGURES_3: dict[str, list[list[float]]] = {
    "scores": [
        [1.20239352, -0.44310134, 1.479061, -0.80531921],
        [0.53823363, 1.09303249, 4.61797795, 0.95396625],
        [-0.21525807, 0.78011689, 1.79464107, 0.87754205],
        [4.11701088, -1.60160544, -0.03209583, 0.24644341],
    ],
    "scaled": [
        [0.42511031, -0.15665998, 0.52292703, -0.28472334],
        [0.19029433, 0.38644534, 1.63270176, 0.337278],
        [-0.07610522, 0.27581297, 0.63450144, 0.31025797],
        [1.45558315, -0.56625303, -0.01134759, 0.0871309],
    ],
    "weights": CAUSAL_3,
    "our_weights": CAUSAL_3,
    "plus_one": CAUSAL_3,
    "outputs": OUTPUT_3,
    "ours": OUTPUT_3,
}


@pytest.mark.parametrize("name", FIGURES_3)
def test_lesson_3_finds_every_array_of_the_text(lesson: Lesson, name: str) -> None:
    """Guards against mistyped data, and attention that rounds float64 to float32."""
    np.testing.assert_allclose(lesson(3).found[name], FIGURES_3[name], rtol=0, atol=5e-8)


def test_lesson_3_begins_with_the_first_value(lesson: Lesson) -> None:
    """Guards against a first token that attends to later tokens."""
    found = lesson(3).found
    np.testing.assert_allclose(found["ours"][0], found["v"][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["our_weights"].sum(axis=1), 1, atol=1e-12)


def test_lesson_3_has_the_variances_of_the_text(lesson: Lesson) -> None:
    """Guards against data that do not match the text, and a wrong claim that scaling divides the variance by d."""
    found = lesson(3).found
    measured = [found[name].var() for name in ("q", "k", "v", "scores", "scaled")]
    expected = [1.3772888688135403, 0.7481376289021062, 1.2000978210749365, 2.443300481459231, 0.30541256018240387]
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-8)
    assert found["mean_variance"] == pytest.approx(8 * 15 / 16, rel=0.02)
    assert found["mean_scaled_variance"] == pytest.approx(15 / 16, rel=0.02)
    assert 0.01 < found["quieter"] < 0.1


def test_lesson_4_measures_similarity_like_the_text(lesson: Lesson) -> None:
    """Guards against radians instead of degrees, and a cosine of unnormalised vectors."""
    found = lesson(4).found
    measured = [found[name] for name in ("dot", "x_length", "y_length", "cosine", "angle")]
    assert [f"{m:.{d}f}" for m, d in zip(measured, (2, 2, 2, 4, 2), strict=True)] == [
        "28.90",
        "5.48",
        "5.29",
        "0.9980",
        "3.59",
    ]
    assert found["x_unit"].round(3).tolist() == [0.183, 0.365, 0.548, 0.730]
    assert found["y_unit"].round(3).tolist() == [0.227, 0.397, 0.549, 0.700]


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


def test_lesson_4_has_the_single_head_of_the_text(lesson: Lesson) -> None:
    """Guards against a mistyped feature, and a projection of the module that is not the identity."""
    found = lesson(4).found
    weights, output = by_the_text(list(range(8)))
    assert list(TOKENS_4) == found["WORDS"]
    np.testing.assert_allclose(found["single_weights"], weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["single_output"], output, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["single_strength"], np.linalg.norm(output, axis=1), rtol=0, atol=1e-6)


def test_lesson_4_has_the_four_heads_of_the_text(lesson: Lesson) -> None:
    """Guards against heads scaled by the model's width instead of the head width."""
    found = lesson(4).found
    expected = {name: by_the_text(features) for name, features in HEADS_4.items()}
    assert list(found["head_weights"]) == list(expected)
    for name, (weights, _) in expected.items():
        np.testing.assert_allclose(found["head_weights"][name], weights, rtol=0, atol=1e-6)
    concatenated = np.concatenate([output for _, output in expected.values()], axis=1)
    assert found["multi_output"].shape == (10, 8)
    np.testing.assert_allclose(found["multi_output"], concatenated, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["multi_strength"], np.linalg.norm(concatenated, axis=1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["from_recording"], found["multi_strength"], rtol=0, atol=1e-6)
    assert found["asked"]["it", "apple"] == pytest.approx(expected["pronoun/coreference"][0][6, 2], abs=1e-6)
    assert found["asked"]["it", "apple"] == pytest.approx(found["asked"]["it", "orange"], abs=1e-6)
    assert sum(found["votes"].values()) == pytest.approx(found["all_votes"], abs=1e-6)
    assert abs(found["votes"]["pronoun/coreference"]) < 1e-6 < 0.01 < found["votes"]["explanation/acidity"]


def test_lesson_5_moves_nouns_by_their_adjectives(lesson: Lesson) -> None:
    """Guards against a hand-made head that attends to the wrong words or to the future."""
    weights = lesson(5).found["hand_weights"]
    shy, blue, bird, old, barns = 1, 2, 3, 5, 6
    assert weights[bird, [shy, blue]].sum() > 0.99
    assert weights[bird, blue] > weights[bird, shy] > 0.2
    assert weights[barns, old] > 0.9
    assert (weights.triu(1) == 0).all()


def test_lesson_5_splits_a_module_into_what_its_heads_add(lesson: Lesson) -> None:
    """Guards against value rows or output columns assigned to the wrong head."""
    found = lesson(5).found
    torch.testing.assert_close(found["added"].sum(dim=0), found["module_output"], rtol=0, atol=1e-5)
    assert found["module_output"].abs().max() > 0.1
    assert found["ranks"] == [8, 8, 8]


def test_lesson_5_learns_what_a_mole_is(lesson: Lesson) -> None:
    """Guards against a hand-made forward pass that differs from the model's, and a model that has learned nothing."""
    found = lesson(5).found
    assert found["next_word"] == "digs"
    torch.testing.assert_close(found["logits"], found["gpt"](found["prompt"]).detach())
    assert [row.index(max(row)) for row in found["of_verbs"]] == [0, 0, 1, 1, 2, 2]
    assert min(max(row) for row in found["of_verbs"]) > 0.9
    weights = found["adjective_weights"].values()
    assert [sum(each) for each in found["shares"]] == pytest.approx(found["whole_differences"], abs=1e-4)
    torch.testing.assert_close(found["lens"][-1], torch.tensor(found["of_verbs"][0]), rtol=0, atol=1e-5)
    assert float(found["lens"][0].max()) < 0.5  # the embedding alone does not know which verb
    assert all(max(heads) > 0.35 for heads in weights)  # of three possible positions


def test_lesson_5_says_who_may_see_the_future(lesson: Lesson) -> None:
    """Guards against a causal mask that leaks, and a causal mask in the cross-attention."""
    found = lesson(5).found
    assert max(found["prefix_differences"]) < 1e-4
    assert min(found["source_changes"]) > 1e-3
    assert max(found["target_changes"][:3]) < 1e-6 < 1e-3 < found["target_changes"][3]


def test_the_pictures_of_the_index_are_those_that_the_lessons_draw(lesson: Lesson, images: Path) -> None:
    """Guards against a picture that is missing from the index, or that no lesson draws any more."""
    for number in range(1, 6):
        lesson(number)
    embedded = re.findall(r"\]\(images/([^)]+)\)", (LESSONS / "README.md").read_text(encoding="utf-8"))
    assert sorted(embedded) == PICTURES == sorted(path.name for path in images.iterdir())
    assert sum((LESSONS / "images" / name).stat().st_size for name in PICTURES) < 450_000


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_like_what_its_lesson_draws(lesson: Lesson, images: Path, name: str) -> None:
    """Guards against a lesson that was changed without redrawing its pictures. Compared at low resolution, because
    fonts differ by a pixel or two."""
    lesson(int(name[0]))
    drawn, committed = (Image.open(folder / name) for folder in (images, LESSONS / "images"))
    np.testing.assert_allclose(drawn.size, committed.size, rtol=0.02)
    seen = [
        np.asarray(image.convert("RGB").resize((60, 40), Image.Resampling.BOX), float) for image in (drawn, committed)
    ]
    assert np.abs(seen[0] - seen[1]).max() < 120  # of 255; a shift by 2 pixels gives 45, another cell colour 200


@pytest.mark.slow
def test_a_lesson_runs_as_a_script_from_anywhere(tmp_path: Path) -> None:
    """Guards against a lesson that runs only from its own folder, or writes to another folder than it reports."""
    done = subprocess.run(
        [sys.executable, str(LESSONS / "2_from_averages_to_attention.py")],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env=environment() | {"LESSON_IMAGES": str(tmp_path / "drawn")},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert "the text says" in done.stdout.decode()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png")] == ["drawn/2_four_ways_to_mix.png"]


def test_a_figure_that_differs_is_called_different(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a comparison that accepts every figure."""
    compare = runpy.run_path(str(LESSONS / "figures.py"))["compare"]
    compare("close", 0.4562, 0.45624)
    compare("off", 0.4562, 0.45626)
    compare("matrix", [[1.0, 0.0]], [[0.9998, 0.0002]])
    verdicts = re.findall(r"agrees|DIFFERS", capsys.readouterr().out)
    assert verdicts == ["agrees", "DIFFERS", "DIFFERS"]
