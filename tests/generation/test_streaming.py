"""Texts as they come: what is shown, and what belongs to them."""

import pytest

from data.config import TokenizerConfig
from data.tokens.tokenizer import Tokenizer
from generation.streaming import StopText, StreamedText


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    """One token for each character."""
    return Tokenizer.train(["one and some more, so they end."] * 3, TokenizerConfig(kind="char"))


def test_what_comes_after_the_end_is_no_part_of_a_text(characters: Tokenizer) -> None:
    """Guards: maps of tokens behind a stop text, which the other samples of the batch make the model write."""
    text = StreamedText(characters, ["so"])
    for token in characters.encode("and so on"):
        text.feed(token)
    assert text.ended
    assert text.take() == "and "
    assert characters.decode(text.tokens) == "and so"
    text.feed(None)
    assert text.take() == ""


def test_the_end_shows_what_was_held_back(characters: Tokenizer) -> None:
    """Guards: a text that loses its last letters because a stop text might have begun with them."""
    text = StreamedText(characters, ["one more"])
    for token in characters.encode("and one"):
        text.feed(token)
    assert text.take() == "and "
    text.feed(None)
    assert text.ended
    assert text.take() == "one"


def test_a_stop_text_in_pieces_is_found_and_not_shown() -> None:
    """Guards: the first letters of a stop text that came one by one."""
    stop = StopText(["end", "nd."])
    assert [stop.feed(letter) for letter in "an en"] == ["a", "", "n ", "", ""]
    assert stop.feed("d") == ""
    assert stop.reached
