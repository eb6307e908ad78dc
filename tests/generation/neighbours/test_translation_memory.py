"""The search for similar training pairs, compared with a search by the definition."""

from __future__ import annotations

import numpy as np

from data.primer import rows
from generation.neighbours.translation_memory import TranslationMemory, words


def test_the_translation_memory_answers_with_the_nearest_sentence() -> None:
    """Guards against an overlap that ignores length and so prefers the longest sentence."""
    memory = TranslationMemory(
        ["I like cats.", "I like cats and dogs and birds and fish.", "She runs."], ["a", "b", "c"]
    )
    assert memory.translate("I like cats!") == "a"
    assert memory.translate("She runs fast.") == "c"
    assert memory.translate("Dogs and birds.") == "b"
    assert memory.translate("Unheard indeed.") in "abc"


def test_the_nearest_pairs_are_those_of_the_definition_in_order() -> None:
    """Guards against a partial sort that loses a pair of a tie, and pairs that have nothing in common."""
    sources = [row["source"] for row in rows("sentences", 300, seed=1)]
    memory = TranslationMemory(sources, sources)

    def similarity(first: str, second: str) -> float:
        return len(words(first) & words(second)) / len(words(first) | words(second))

    for query in ("The old dog sees a cat.", "Ken runs.", sources[7]):
        ranked = sorted(range(len(sources)), key=lambda row: -similarity(query, sources[row]))
        for count in (1, 5, 40):
            expected = [row for row in ranked[:count] if similarity(query, sources[row])]
            assert memory.nearest(query, count).tolist() == expected
    assert memory.nearest("Unheard indeed.", 5).dtype == np.int64
    assert memory.nearest("Unheard indeed.", 5).tolist() == []
