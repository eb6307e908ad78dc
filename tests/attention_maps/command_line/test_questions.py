"""The strongest links of a token, and word alignments extracted from a map."""

from pathlib import Path

import numpy as np
import pytest

from attention_maps.command_line.loading import chosen_recording, existing_run, recorded_runs, recordings
from attention_maps.command_line.questions import MapSettings, position, questions
from attention_maps.files import store
from attention_maps.record.alignment_readout import alignment, links, pharaoh
from attention_maps.record.arrays import recording_of_arrays
from attention_maps.record.chosen_map import choose
from attention_maps.record.recording import Recording, tokens
from configs.errors import UserError


def test_the_strongest_keys_of_a_query_come_first(lesson: Recording) -> None:
    """Guards against swapped rows and columns."""
    first, second = lesson.strongest("win", kind="decoder", layer=0, head=0, top=2)
    assert (first.position, first.piece, second.position, second.piece) == (1, "I", 0, "nah")
    assert (first.weight, second.weight) == pytest.approx((0.5, 0.3), abs=1e-3)


def test_strongest_queries_of_a_key(lesson: Recording) -> None:
    """Guards against returning the keys of 'I' instead of the queries that attend to it."""
    links = lesson.strongest(key="I", kind="decoder", layer=0, head=0, top=9)
    assert [(link.piece, round(link.weight, 1)) for link in links] == [("I", 0.8), ("win", 0.5), ("d", 0.1)]


def test_masked_tokens_are_never_links(lesson: Recording) -> None:
    """Guards against masked tokens listed with 0 %."""
    assert [link.piece for link in lesson.strongest("nah", kind="decoder", layer=0, head=0)] == ["nah"]


def test_a_word_of_a_translation_is_asked_for_where_it_was_predicted(lesson: Recording) -> None:
    """Guards against an off-by-one between `weight` and `strongest`: the row that predicts win reads d."""
    where = {"kind": "cross", "layer": 0, "head": 0}
    for rows in (None, "reads", "predicts"):
        for link in lesson.strongest("win", rows=rows, **where):
            assert link.weight == lesson.weight("win", link.position, rows=rows, **where)
        (link,) = lesson.strongest(key="いいえ", rows=rows, top=1, **where)
        assert link.piece == ("nah" if rows == "reads" else "I")


def test_default_kind_is_a_recorded_one() -> None:
    """Guards against a refusal for cross-attention of an encoder, which has none."""
    uniform = np.full((1, 2, 3, 3), 1 / 3)
    causal = np.tril(np.ones((1, 2, 3, 3))) / np.arange(1, 4)[:, None]
    text = ["a", "b", "c"]
    for weights, kind in (
        ({"encoder": uniform}, "encoder"),
        ({"encoder": uniform, "decoder": causal}, "decoder"),
        ({"encoder": uniform, "decoder": causal, "cross": uniform}, "cross"),
    ):
        recording = recording_of_arrays(weights, text if "decoder" in weights else (), text)
        (chosen,) = questions("", recording, MapSettings())
        assert chosen.kind == kind


def test_strongest_needs_either_query_or_key(lesson: Recording) -> None:
    """Guards against an arbitrary result if neither query nor key is given."""
    for sides in ({}, {"query": "win", "key": "I"}):
        with pytest.raises(ValueError, match="give either query or key"):
            lesson.strongest(kind="decoder", layer=0, **sides)


WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])


@pytest.mark.parametrize(
    ("readout", "expected"),
    [
        ("argmax", [(0, 0), (1, 0), (2, 2)]),
        ("mutual", [(0, 0), (2, 2)]),
        ("grown", [(0, 0), (1, 0), (1, 1), (2, 2)]),
        ("threshold", [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2)]),
    ],
)
def test_alignment_readouts(readout: str, expected: list[tuple[int, int]]) -> None:
    """Guards against a `mutual` that checks one direction only, and a `threshold` that excludes equal weights."""
    assert links(WEIGHTS, readout, 0.3) == expected


def test_a_diverged_or_empty_map_has_no_links() -> None:
    """Guards against NaN as the largest weight, and an argmax over an empty map."""
    assert links(np.full((2, 3), np.nan), "argmax") == []
    assert links(np.zeros((0, 3)), "mutual") == links(np.zeros((2, 0)), "argmax") == []


def test_alignments_are_source_to_target_without_special_tokens(lesson: Recording) -> None:
    """Guards against another order than that of aligners, and links of </s>. Rows are labelled by the predicted
    token."""
    assert alignment(choose(lesson, layer=0, head=0)) == [(0, 0), (0, 2), (1, 1)]
    assert pharaoh(alignment(choose(lesson, layer=0, head=0), "mutual")) == "0-0 1-1"
    assert (0, 0) not in alignment(choose(lesson, layer=0, head=0, rows="reads"))  # row 0 reads <s>


def test_numbers_are_positions_unless_a_token_is_spelled_so() -> None:
    """Guards against reading `query=7` as a position if there is a token 7."""
    text = tokens(range(4), ["▁at", "▁7", "▁a", "m"], frozenset())
    assert position("7", text) == range(1, 2)
    assert position("3", text) == range(3, 4)
    assert position("2:4", text) == position("am", text) == range(2, 4)
    for wrong in ("9", "2:9", "1:2:3", "-1", "x", "9" * 5000, "0:" + "9" * 9, "0:" + "9" * 5000):
        with pytest.raises(LookupError):
            position(wrong, text)
    with pytest.raises(LookupError, match=r"^the range 3:2 is empty$"):
        position("3:2", text)


def test_ambiguous_words_list_positions_in_command_line_syntax() -> None:
    """Guards against Python syntax, `range(0, 2)`, in messages of the command line."""
    with pytest.raises(LookupError, match=r"use one of the positions 0:2, 3:5$"):
        position("an", tokens(range(5), ["a", "n", "d", "▁a", "n"], frozenset()))


def test_recordings_are_found_by_step_and_by_name(lesson: Recording, tmp_path: Path) -> None:
    """Guards against selecting a generated text as `last`, and ordering steps as text."""
    run = tmp_path / "runs" / "x"
    for step in (500, 100_000_000, 2000):
        store.save(Recording(step, lesson.samples), run)
    store.save_generated(lesson, run)
    assert list(recordings(run)) == ["step_00000500", "step_00002000", "step_100000000", "generated_00001"]
    for typed, name in (
        ("first", "step_00000500"),
        ("last", "step_100000000"),
        ("2000", "step_00002000"),
        ("step_00002000", "step_00002000"),
        ("generated_00001", "generated_00001"),
    ):
        assert chosen_recording(run, typed)[0] == name
    for missing in ("7", "9" * 5000, "²"):
        with pytest.raises(UserError, match=rf"step={missing}: .*available: 500, 2000, 100000000, generated_00001"):
            chosen_recording(run, missing)
    assert recorded_runs(tmp_path) == recorded_runs(run) == [run]


def test_hidden_folders_and_the_inside_of_a_run_are_not_searched(lesson: Recording, tmp_path: Path) -> None:
    """Guards against listing a backup inside a run, and runs in `.cache`."""
    for run in ("x", "x/old", ".hidden/y"):
        store.save(lesson, tmp_path / run)
    assert recorded_runs(tmp_path) == recorded_runs(tmp_path / "x") == [tmp_path / "x"]


def test_links_are_followed_without_cycles(lesson: Recording, tmp_path: Path) -> None:
    """Guards against endless recursion through a link to a parent folder, and a search that stops at a broken link."""
    store.save(lesson, tmp_path / "elsewhere")
    runs = tmp_path / "runs"
    store.save(lesson, runs / "deep" / "x")
    for name, target in (
        ("deep/up", runs),
        ("deep/self", "self"),
        ("linked", tmp_path / "elsewhere"),
        ("no", "nowhere"),
    ):
        (runs / name).symlink_to(target)
    assert recorded_runs(runs) == [runs / "deep" / "x", runs / "linked"]


def test_folder_of_runs_lists_its_runs(lesson: Recording, tmp_path: Path) -> None:
    """Guards against an unhelpful message for the common mistake `show runs`."""
    store.save(lesson, tmp_path / "x")
    with pytest.raises(UserError, match=r"runs in it: .*x"):
        existing_run(str(tmp_path))
    for missing in (str(tmp_path / "y"), "~nosuchuser/y"):
        with pytest.raises(UserError, match="no such run"):
            existing_run(missing)


def test_default_map(lesson: Recording) -> None:
    """Guards the defaults: cross-attention, second-to-last layer, rows labelled by predicted tokens, mean over
    heads."""
    (asked,) = questions("", lesson, MapSettings())
    assert (asked.sample, asked.kind, asked.layer, asked.head, asked.rows) == (0, "cross", 0, None, "predicts")
    np.testing.assert_array_equal(asked.matrix, lesson.map(0, "cross", 0))
    several = list(questions("", lesson, MapSettings(sample="all", kind="decoder", layer=-1, head="all")))
    assert [(q.sample, q.layer, q.head, q.rows) for q in several] == [(0, 1, 0, "reads"), (0, 1, 1, "reads")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (MapSettings(sample=1), "sample=1: there are 1"),
        (MapSettings(layer=2), "no cross layer 2: there are 2"),
        (MapSettings(head=-3), "no head -3: there are 2"),
        (MapSettings(kind="encoder", rows="predicts"), "an encoder predicts nothing"),
    ],
)
def test_missing_maps_list_what_is_recorded(lesson: Recording, settings: MapSettings, message: str) -> None:
    """Guards against a traceback, and negative indices that wrap around."""
    with pytest.raises(UserError, match=message):
        list(questions("", lesson, settings))
    with pytest.raises(UserError, match="this recording contains no examples"):
        list(questions("", Recording(1, ()), MapSettings(sample="all")))
