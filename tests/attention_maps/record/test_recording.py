"""Queries of a recording: the attention weight between two tokens."""

import numpy as np
import pytest

from attention_maps.record.recording import Recording, tokens


@pytest.mark.parametrize(
    ("who", "to", "kind", "percent"),
    [
        ("I", "win", "decoder", 0),
        ("win", "I", "decoder", 50),
        ("d", "nah", "decoder", 80),
        ("I", "いいえ", "cross", 30),
        ("win", "勝つ", "cross", 80),
        ("I", "勝つ", "cross", 60),
    ],
)
def test_queries_give_the_percentages_of_the_lesson(
    lesson: Recording, who: str, to: str, kind: str, percent: int
) -> None:
    """Guards against rows and columns swapped, or the wrong side's tokens on an axis."""
    assert round(100 * lesson.weight(who, to, kind=kind, layer=0, head=0, rows="reads")) == percent


def test_default_head_is_the_mean(lesson: Recording) -> None:
    """Guards against a silent default to head 0."""
    assert lesson.weight("win", "I", kind="decoder", layer=0) == pytest.approx((0.5 + 0.25) / 2, abs=1e-3)


def test_rows_can_be_named_by_what_they_predict(lesson: Recording) -> None:
    """Guards the off-by-one of alignments: the row that predicts 'win' is the one that reads 'd'."""
    asked = lesson.weight("win", "nah", kind="decoder", layer=0, head=0, rows="predicts")
    assert asked == lesson.weight("d", "nah", kind="decoder", layer=0, head=0) == pytest.approx(0.8, abs=1e-3)
    with pytest.raises(ValueError, match="encoder predicts nothing"):
        lesson.weight("さ", "さ", kind="encoder", layer=0, rows="predicts")


def test_a_word_of_a_translation_is_by_default_what_its_row_predicts(lesson: Recording) -> None:
    """Guards against asking for the row after a word was written, which says nothing about where it came from."""
    asked = lesson.weight("win", "勝つ", kind="cross", layer=0, head=0)
    assert asked == lesson.weight("win", "勝つ", kind="cross", layer=0, head=0, rows="predicts")
    assert asked == lesson.weight("d", "勝つ", kind="cross", layer=0, head=0, rows="reads")
    weight = lesson.weight("win", "I", kind="decoder", layer=0, head=0)
    assert weight == lesson.weight("win", "I", kind="decoder", layer=0, head=0, rows="reads")


def test_negative_layers_count_from_the_last(lesson: Recording) -> None:
    """Guards the look-up of `layer=-1`, which a dictionary would not find."""
    np.testing.assert_array_equal(lesson.maps(0, "cross", -1), lesson.maps(0, "cross", 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 2}, "no cross layer 2: there are 2"),
        ({"head": 2}, "no head 2: there are 2"),
        ({"kind": "self"}, "available: encoder, decoder, cross"),
        ({"key": "負ける"}, "'負ける' is not among the tokens: いいえ 勝つ さ"),
        ({"key": 3}, "position 3 is not within the 3 tokens"),
        ({"key": range(2, 4)}, "the positions 2 to 3 are not within the 3 tokens"),
        ({"key": range(3, 1)}, "the range 3:1 is empty"),
        ({"key": range(10**30)}, "not within the 3 tokens"),
        ({"key": range(2, -(10**12), -1)}, "not within the 3 tokens"),
    ],
)
def test_lookup_errors_list_what_is_recorded(lesson: Recording, change: dict, message: str) -> None:
    """Guards against bare KeyErrors, and against numpy wrapping around to another token."""
    question = {"query": "win", "key": "さ", "kind": "cross", "layer": 0} | change
    with pytest.raises(LookupError, match=message):
        lesson.weight(question.pop("query"), question.pop("key"), **question)


def test_words_of_several_pieces_are_found() -> None:
    """Guards queries on character and subword models, where 'win' is no single piece."""
    characters = tokens(range(9), ["▁", "n", "o", "▁", "w", "i", "n", "▁勝", "つ"], frozenset())
    assert characters.find("win") == range(4, 7)
    assert characters.find("▁win") == range(4, 7)
    assert characters.find("勝つ") == range(7, 9)
    assert characters.find("no win") == characters.find("no▁win") == range(1, 7)


def test_ambiguous_word_needs_a_position() -> None:
    """Guards against the first 'the' silently answering for the second."""
    text = tokens(range(4), ["▁the", "▁cat", "▁the", "▁dog"], frozenset())
    with pytest.raises(LookupError, match="'the' occurs 2 times; use one of the positions 0, 2"):
        text.find("the")
    assert text.find(2) == range(2, 3)
    assert text.find(-1) == range(3, 4)


def test_several_pieces_sum_over_keys_and_average_over_queries(lesson: Recording) -> None:
    """Guards the merge rule: shares of one query add up, several queries do not."""
    both = lesson.weight(range(2, 4), range(0, 2), kind="cross", layer=0, head=0)
    assert both == pytest.approx((0.33 + 0.33 + 0.15 + 0.8) / 2, abs=1e-3)


def test_token_counts_must_match() -> None:
    """Guards against labels of one sentence on the map of another."""
    with pytest.raises(ValueError, match="3 ids, 2 pieces"):
        tokens([1, 2, 3], ["a", "b"], frozenset())
