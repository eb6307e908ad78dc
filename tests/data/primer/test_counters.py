"""Counters from one to ten, writing and reading, against tables written out by hand."""

from __future__ import annotations

import pytest

from data.primer.grammar.counters import COUNTERS, count, question

READINGS = {
    "本": "いっぽん にほん さんぼん よんほん ごほん ろっぽん ななほん はっぽん きゅうほん じゅっぽん",
    "匹": "いっぴき にひき さんびき よんひき ごひき ろっぴき ななひき はっぴき きゅうひき じゅっぴき",
    "杯": "いっぱい にはい さんばい よんはい ごはい ろっぱい ななはい はっぱい きゅうはい じゅっぱい",
    "個": "いっこ にこ さんこ よんこ ごこ ろっこ ななこ はっこ きゅうこ じゅっこ",
    "冊": "いっさつ にさつ さんさつ よんさつ ごさつ ろくさつ ななさつ はっさつ きゅうさつ じゅっさつ",
    "着": (
        "いっちゃく にちゃく さんちゃく よんちゃく ごちゃく ろくちゃく ななちゃく はっちゃく きゅうちゃく じゅっちゃく"
    ),
    "通": "いっつう につう さんつう よんつう ごつう ろくつう ななつう はっつう きゅうつう じゅっつう",
    "頭": "いっとう にとう さんとう よんとう ごとう ろくとう ななとう はっとう きゅうとう じゅっとう",
    "足": "いっそく にそく さんぞく よんそく ごそく ろくそく ななそく はっそく きゅうそく じゅっそく",
    "枚": "いちまい にまい さんまい よんまい ごまい ろくまい ななまい はちまい きゅうまい じゅうまい",
    "台": "いちだい にだい さんだい よんだい ごだい ろくだい ななだい はちだい きゅうだい じゅうだい",
    "つ": "ひとつ ふたつ みっつ よっつ いつつ むっつ ななつ やっつ ここのつ とお",
    "人": "ひとり ふたり さんにん よにん ごにん ろくにん ななにん はちにん きゅうにん じゅうにん",
    "羽": "いちわ にわ さんわ よんわ ごわ ろくわ ななわ はちわ きゅうわ じゅうわ",
    "時": "いちじ にじ さんじ よじ ごじ ろくじ しちじ はちじ くじ じゅうじ",
}


@pytest.mark.parametrize("counter", COUNTERS)
def test_readings_one_to_ten(counter: str) -> None:
    """いちほん, さんひき and よんにん are mistakes that every learner makes once."""
    assert [count(number, counter).reading for number in range(1, 11)] == READINGS[counter].split()


def test_writings() -> None:
    """Written in kanji; ten things are 十, not 十つ."""
    assert [count(n, "匹").writing for n in (1, 2, 3, 10)] == ["一匹", "二匹", "三匹", "十匹"]
    assert [count(n, "つ").writing for n in (1, 9, 10)] == ["一つ", "九つ", "十"]


def test_how_many() -> None:
    """The question follows the counter, and つ has a word of its own."""
    assert [question(counter) for counter in ("個", "匹", "人", "つ")] == ["何個", "何匹", "何人", "いくつ"]


@pytest.mark.parametrize(("number", "counter"), [(0, "本"), (11, "本"), (3, "丁")])
def test_what_cannot_be_counted_is_refused(number: int, counter: str) -> None:
    """Beyond ten the sound changes repeat differently: better no sentence than a wrong one."""
    with pytest.raises(ValueError, match="cannot count"):
        count(number, counter)
