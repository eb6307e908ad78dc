"""Combine numerals and Japanese counters in kanji, and their readings with sound changes (一本 いっぽん, 三匹 さんびき)."""

from __future__ import annotations

from typing import NamedTuple


class Counted(NamedTuple):
    """A number with its counter, e.g. 三匹, さんびき."""

    writing: str
    reading: str


_KANJI = ("", "一", "二", "三", "四", "五", "六", "七", "八", "九", "十")
_PLAIN = ("", "いち", "に", "さん", "よん", "ご", "ろく", "なな", "はち", "きゅう", "じゅう")
_GEMINATE = {1: "いっ", 6: "ろっ", 8: "はっ", 10: "じゅっ"}

# Counters by the sound change between numeral and counter.
# h-row: いっぽん さんぼん ろっぽん; k-row: いっこ ろっこ; s-, t- and ch-row: いっさつ, but ろくさつ.
_H_ROW = {"本": ("ほん", "ぽん", "ぼん"), "匹": ("ひき", "ぴき", "びき"), "杯": ("はい", "ぱい", "ばい")}
_K_ROW = {"個": "こ"}
_S_ROW = {"冊": "さつ", "着": "ちゃく", "通": "つう", "頭": "とう", "足": "そく"}
_STEADY = {"枚": "まい", "台": "だい"}
_OWN = {
    "つ": "ひとつ ふたつ みっつ よっつ いつつ むっつ ななつ やっつ ここのつ とお",
    "人": "ひとり ふたり さんにん よにん ごにん ろくにん ななにん はちにん きゅうにん じゅうにん",
    "羽": "いちわ にわ さんわ よんわ ごわ ろくわ ななわ はちわ きゅうわ じゅうわ",
    "時": "いちじ にじ さんじ よじ ごじ ろくじ しちじ はちじ くじ じゅうじ",
}

COUNTERS = (*_H_ROW, *_K_ROW, *_S_ROW, *_STEADY, *_OWN)


def count(number: int, counter: str) -> Counted:
    """Combine `number` (1 to 10) with `counter`: count(3, "匹") is 三匹, さんびき. Raises ValueError outside that range."""
    if not 1 <= number <= 10 or counter not in COUNTERS:
        raise ValueError(f"cannot count {number} with {counter!r}")
    writing = "十" if counter == "つ" and number == 10 else _KANJI[number] + counter
    return Counted(writing, _reading(number, counter))


def _reading(number: int, counter: str) -> str:
    if counter in _OWN:
        return _OWN[counter].split()[number - 1]
    if counter in _STEADY:
        return _PLAIN[number] + _STEADY[counter]
    if counter in _H_ROW:
        plain, hard, soft = _H_ROW[counter]
        if number in _GEMINATE:
            return _GEMINATE[number] + hard
        return _PLAIN[number] + (soft if number == 3 else plain)
    if counter in _K_ROW:
        return _GEMINATE.get(number, _PLAIN[number]) + _K_ROW[counter]
    syllable = _S_ROW[counter]
    if counter == "足" and number == 3:
        return "さんぞく"
    geminate = number in _GEMINATE and number != 6
    return (_GEMINATE[number] if geminate else _PLAIN[number]) + syllable


def question(counter: str) -> str:
    """Return 'how many' for the counter: 何個, 何匹, 何人; いくつ for つ."""
    return "いくつ" if counter == "つ" else "何" + counter
