"""Combine numerals and Japanese counters in kanji."""

from __future__ import annotations

_KANJI = ("", "一", "二", "三", "四", "五", "六", "七", "八", "九", "十")

COUNTERS = frozenset("本匹杯個冊着通頭足枚台つ人羽時")


def count(number: int, counter: str) -> str:
    """Combine `number` (1 to 10) with `counter`: count(3, "匹") is 三匹. Raises ValueError outside that range."""
    if not 1 <= number <= 10 or counter not in COUNTERS:
        raise ValueError(f"cannot count {number} with {counter!r}")
    return "十" if counter == "つ" and number == 10 else _KANJI[number] + counter


def question(counter: str) -> str:
    """Return 'how many' for the counter: 何個, 何匹, 何人; いくつ for つ."""
    return "いくつ" if counter == "つ" else "何" + counter
