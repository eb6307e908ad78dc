"""The Japanese side compared with a morphological analyser (MeCab with UniDic, through fugashi)."""

from __future__ import annotations

import random
from collections import Counter

import fugashi
import pytest

from data.primer import rows
from data.primer.grammar.choice import Chooser
from data.primer.grammar.sentences import derive
from data.primer.grammar.tree import Written
from data.primer.plots.repeated import LETTERS

SENTENCES = 20_000

LOOKED_AT = {
    # サッカーを|し|たがって read as サッカーを|したがって, 'therefore': the analyser is wrong, a wish is meant.
    ("し", "したがっ"),
    # 昨日|本を読みました read as 昨|日本を: two words that run together in writing; a reader knows better.
    *((day, "日本") for day in ("昨日", "明日", "毎日", "本")),
    # 今夜|遊びます read as 今|夜遊びます, likewise.
    *((word, "夜遊び") for word in ("今夜", "昨夜", "遊び")),
}
"""Disagreements that were looked at, with the reason: (our word, the analyser's token across its border)."""


@pytest.fixture(scope="module")
def tagger() -> fugashi.Tagger:
    """Return a tagger with the UniDic version that pip installs."""
    return fugashi.Tagger()


@pytest.fixture(scope="module")
def derived() -> list[Written]:
    """Return Japanese sides with their words."""
    chooser = Chooser(random.Random(9))
    return [derive(chooser).written()[1] for _ in range(SENTENCES)]


@pytest.mark.slow
def test_no_word_is_unknown_and_our_words_end_where_its_words_end(
    tagger: fugashi.Tagger, derived: list[Written]
) -> None:
    """Guards against misspelt words and wrong forms, which have no dictionary entry, and against links that end inside
    a word."""
    unknown: Counter[str] = Counter()
    crossed: Counter[tuple[str, str]] = Counter()
    borders = 0
    for written in derived:
        tokens, position = [], 0
        for token in tagger(written.text):
            tokens.append((position, position + len(token.surface), token.surface))
            position += len(token.surface)
            unknown[token.surface] += bool(token.is_unk)
        assert position == len(written.text)
        cuts = {start for start, _, _ in tokens} | {position}
        for word, start, end in written.words:
            if word.content:
                borders += 2
                for border in (start, end):
                    if border not in cuts:
                        crossed[word.text, next(t for a, b, t in tokens if a < border < b)] += 1
    assert not +unknown, +unknown
    assert borders > 4 * SENTENCES
    assert set(crossed) <= LOOKED_AT, crossed
    assert sum(crossed.values()) <= 0.02 * borders


def test_stories_hold_no_unknown_word(tagger: fugashi.Tagger) -> None:
    """Guards the words and forms that only the stories use. The dictionary has no letters, which spell passwords."""
    for row in rows("stories", 1000, seed=5):
        unknown = [token.surface for token in tagger(row["japanese"]) if token.is_unk]
        assert set(unknown) <= set(LETTERS), row["japanese"]
