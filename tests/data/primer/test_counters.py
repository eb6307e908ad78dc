"""Japanese counters from one to ten."""

from __future__ import annotations

import pytest

from data.primer.grammar.counters import count, question


def test_writings() -> None:
    """Guards the kanji: ten things are 十, not 十つ."""
    assert [count(n, "匹") for n in (1, 2, 3, 10)] == ["一匹", "二匹", "三匹", "十匹"]
    assert [count(n, "つ") for n in (1, 9, 10)] == ["一つ", "九つ", "十"]


def test_how_many() -> None:
    """Guards the interrogative, which depends on the counter: いくつ for つ."""
    assert [question(counter) for counter in ("個", "匹", "人", "つ")] == ["何個", "何匹", "何人", "いくつ"]


@pytest.mark.parametrize(("number", "counter"), [(0, "本"), (11, "本"), (3, "丁")])
def test_what_cannot_be_counted_is_refused(number: int, counter: str) -> None:
    """Guards against numbers above ten and unknown counters, which raise an error."""
    with pytest.raises(ValueError, match="cannot count"):
        count(number, counter)
