"""English inflection beyond the tables of the lexicon: agreement, and articles by sound."""

from __future__ import annotations

import pytest

from data.primer.grammar import english as en


@pytest.mark.parametrize(
    ("word", "article"), [("hour", "an"), ("umbrella", "an"), ("university", "a"), ("useful", "a"), ("one", "a")]
)
def test_article_follows_the_sound(word: str, article: str) -> None:
    """Guards against 'a hour' and 'an university'."""
    assert en.article(word) == article


@pytest.mark.parametrize(
    ("past", "forms"), [(False, ["am", "are", "is", "are", "are"]), (True, ["was", "were", "was", "were", "were"])]
)
def test_be_agrees_with_its_subject(past: bool, forms: list[str]) -> None:
    """Guards against 'I is', 'they was'."""
    subjects = [(1, False), (2, False), (3, False), (1, True), (3, True)]
    assert [en.be(person, plural, past) for person, plural in subjects] == forms
