"""Texts shown while they are generated, and the tokens that belong to them."""

import pytest

from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from generation.text_streaming import StopText, StreamedText


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    """A tokenizer with one token per character."""
    return SentencePieceTokenizer.train(["one and some more, so they end."] * 3, TokenizerConfig(kind="char"))


def test_what_comes_after_the_end_is_no_part_of_a_text(characters: Tokenizer) -> None:
    """Guards against maps of tokens after a stop string, which the model generates while other samples continue."""
    text = StreamedText(characters, ["so"])
    for token in characters.encode("and so on"):
        text.feed(token)
    assert text.ended
    assert text.take() == "and "
    assert characters.decode(text.tokens) == "and so"
    text.feed(None)
    assert text.take() == ""


def test_the_end_shows_what_was_held_back(characters: Tokenizer) -> None:
    """Guards against losing the last letters of a text because a stop string could begin with them."""
    text = StreamedText(characters, ["one more"])
    for token in characters.encode("and one"):
        text.feed(token)
    assert text.take() == "and "
    text.feed(None)
    assert text.ended
    assert text.take() == "one"


def test_a_stop_text_in_pieces_is_found_and_not_shown() -> None:
    """Guards against showing the first letters of a stop string that arrives letter by letter."""
    stop = StopText(["end", "nd."])
    assert [stop.feed(letter) for letter in "an en"] == ["a", "", "n ", "", ""]
    assert stop.feed("d") == ""
    assert stop.reached
