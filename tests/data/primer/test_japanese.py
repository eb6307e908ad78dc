# ruff: noqa: E501  (a row of a conjugation table is read as one line)
"""Japanese inflection, compared with hand-written tables."""

from __future__ import annotations

import pytest

from data.primer.grammar import japanese as ja
from data.primer.grammar.counters import count, question
from data.primer.lexicon import ADJECTIVES, VERBS, adjective_predicate, verb_predicate

# dictionary, class: ます ません ました ませんでした | ない なかった た | て なくて | たい(です) たくないです | potential polite, negative |
# ています ていませんでした | たら | ましょう | てください ないでください | てもいいです | なければなりません てはいけません なくてもいいです | たことがあります
VERB_TABLE = """
買う godan 買います 買いません 買いました 買いませんでした 買わない 買わなかった 買った 買って 買わなくて 買いたいです 買いたくないです 買えます 買えません 買っています 買っていませんでした 買ったら 買いましょう 買ってください 買わないでください 買ってもいいです 買わなければなりません 買ってはいけません 買わなくてもいいです 買ったことがあります
書く godan 書きます 書きません 書きました 書きませんでした 書かない 書かなかった 書いた 書いて 書かなくて 書きたいです 書きたくないです 書けます 書けません 書いています 書いていませんでした 書いたら 書きましょう 書いてください 書かないでください 書いてもいいです 書かなければなりません 書いてはいけません 書かなくてもいいです 書いたことがあります
泳ぐ godan 泳ぎます 泳ぎません 泳ぎました 泳ぎませんでした 泳がない 泳がなかった 泳いだ 泳いで 泳がなくて 泳ぎたいです 泳ぎたくないです 泳げます 泳げません 泳いでいます 泳いでいませんでした 泳いだら 泳ぎましょう 泳いでください 泳がないでください 泳いでもいいです 泳がなければなりません 泳いではいけません 泳がなくてもいいです 泳いだことがあります
貸す godan 貸します 貸しません 貸しました 貸しませんでした 貸さない 貸さなかった 貸した 貸して 貸さなくて 貸したいです 貸したくないです 貸せます 貸せません 貸しています 貸していませんでした 貸したら 貸しましょう 貸してください 貸さないでください 貸してもいいです 貸さなければなりません 貸してはいけません 貸さなくてもいいです 貸したことがあります
待つ godan 待ちます 待ちません 待ちました 待ちませんでした 待たない 待たなかった 待った 待って 待たなくて 待ちたいです 待ちたくないです 待てます 待てません 待っています 待っていませんでした 待ったら 待ちましょう 待ってください 待たないでください 待ってもいいです 待たなければなりません 待ってはいけません 待たなくてもいいです 待ったことがあります
遊ぶ godan 遊びます 遊びません 遊びました 遊びませんでした 遊ばない 遊ばなかった 遊んだ 遊んで 遊ばなくて 遊びたいです 遊びたくないです 遊べます 遊べません 遊んでいます 遊んでいませんでした 遊んだら 遊びましょう 遊んでください 遊ばないでください 遊んでもいいです 遊ばなければなりません 遊んではいけません 遊ばなくてもいいです 遊んだことがあります
読む godan 読みます 読みません 読みました 読みませんでした 読まない 読まなかった 読んだ 読んで 読まなくて 読みたいです 読みたくないです 読めます 読めません 読んでいます 読んでいませんでした 読んだら 読みましょう 読んでください 読まないでください 読んでもいいです 読まなければなりません 読んではいけません 読まなくてもいいです 読んだことがあります
走る godan 走ります 走りません 走りました 走りませんでした 走らない 走らなかった 走った 走って 走らなくて 走りたいです 走りたくないです 走れます 走れません 走っています 走っていませんでした 走ったら 走りましょう 走ってください 走らないでください 走ってもいいです 走らなければなりません 走ってはいけません 走らなくてもいいです 走ったことがあります
行く iku 行きます 行きません 行きました 行きませんでした 行かない 行かなかった 行った 行って 行かなくて 行きたいです 行きたくないです 行けます 行けません 行っています 行っていませんでした 行ったら 行きましょう 行ってください 行かないでください 行ってもいいです 行かなければなりません 行ってはいけません 行かなくてもいいです 行ったことがあります
食べる ichidan 食べます 食べません 食べました 食べませんでした 食べない 食べなかった 食べた 食べて 食べなくて 食べたいです 食べたくないです 食べられます 食べられません 食べています 食べていませんでした 食べたら 食べましょう 食べてください 食べないでください 食べてもいいです 食べなければなりません 食べてはいけません 食べなくてもいいです 食べたことがあります
見る ichidan 見ます 見ません 見ました 見ませんでした 見ない 見なかった 見た 見て 見なくて 見たいです 見たくないです 見られます 見られません 見ています 見ていませんでした 見たら 見ましょう 見てください 見ないでください 見てもいいです 見なければなりません 見てはいけません 見なくてもいいです 見たことがあります
勉強する suru 勉強します 勉強しません 勉強しました 勉強しませんでした 勉強しない 勉強しなかった 勉強した 勉強して 勉強しなくて 勉強したいです 勉強したくないです 勉強できます 勉強できません 勉強しています 勉強していませんでした 勉強したら 勉強しましょう 勉強してください 勉強しないでください 勉強してもいいです 勉強しなければなりません 勉強してはいけません 勉強しなくてもいいです 勉強したことがあります
する suru します しません しました しませんでした しない しなかった した して しなくて したいです したくないです できます できません しています していませんでした したら しましょう してください しないでください してもいいです しなければなりません してはいけません しなくてもいいです したことがあります
来る kuru 来ます 来ません 来ました 来ませんでした 来ない 来なかった 来た 来て 来なくて 来たいです 来たくないです 来られます 来られません 来ています 来ていませんでした 来たら 来ましょう 来てください 来ないでください 来てもいいです 来なければなりません 来てはいけません 来なくてもいいです 来たことがあります
くる kuru きます きません きました きませんでした こない こなかった きた きて こなくて きたいです きたくないです こられます こられません きています きていませんでした きたら きましょう きてください こないでください きてもいいです こなければなりません きてはいけません こなくてもいいです きたことがあります
"""

# dictionary, class: です くないです かったです くなかったです | plain, ない, た, なかった | before a noun, before ので, past before a noun |
# て たら | before なる | too, polite past
ADJECTIVE_TABLE = """
高い i 高いです 高くないです 高かったです 高くなかったです 高い 高くない 高かった 高くなかった 高い 高い 高かった 高くて 高かったら 高く 高すぎました
いい ii いいです よくないです よかったです よくなかったです いい よくない よかった よくなかった いい いい よかった よくて よかったら よく よすぎました
背が高い i 背が高いです 背が高くないです 背が高かったです 背が高くなかったです 背が高い 背が高くない 背が高かった 背が高くなかった 背が高い 背が高い 背が高かった 背が高くて 背が高かったら 背が高く 背が高すぎました
静かな na 静かです 静かではありません 静かでした 静かではありませんでした 静かだ 静かではない 静かだった 静かではなかった 静かな 静かな 静かだった 静かで 静かだったら 静かに 静かすぎました
病気の no 病気です 病気ではありません 病気でした 病気ではありませんでした 病気だ 病気ではない 病気だった 病気ではなかった 病気の 病気な 病気だった 病気で 病気だったら 病気に 病気すぎました
"""

FINITE = [(False, False), (False, True), (True, False), (True, True)]


def _verb_forms(predicate: ja.Predicate) -> list[str]:
    finite = [ja.finite(predicate, past=past, negative=negative) for past, negative in FINITE]
    plain = [ja.plain(predicate, negative=True), ja.plain(predicate, past=True, negative=True), ja.ta(predicate)]
    can, wish = ja.potential(predicate), ja.desiderative(predicate)
    going_on = ja.progressive(predicate)
    more = [
        ja.te(predicate),
        ja.te(predicate, negative=True),
        ja.finite(wish),
        ja.finite(wish, negative=True),
        ja.finite(can),
        ja.finite(can, negative=True),
        ja.finite(going_on),
        ja.finite(going_on, past=True, negative=True),
        ja.conditional(predicate),
        ja.volitional(predicate),
        ja.request(predicate),
        ja.request(predicate, negative=True),
        ja.finite(ja.permission(predicate)),
        ja.finite(ja.duty(predicate), negative=True),
        ja.finite(ja.prohibition(predicate), negative=True),
        ja.finite(ja.release(predicate)),
        ja.finite(ja.experience(predicate)),
    ]
    return [form.text for form in (*finite, *plain, *more)]


@pytest.mark.parametrize("row", VERB_TABLE.strip().splitlines(), ids=lambda row: row.split()[0])
def test_verb_forms(row: str) -> None:
    """Guards against wrong bases and sound changes, which would occur in thousands of sentences."""
    verb, kind, *expected = row.split()
    assert _verb_forms(verb_predicate(verb, kind)) == expected


def _adjective_forms(predicate: ja.Predicate) -> list[str]:
    polite = [ja.finite(predicate, past=past, negative=negative) for past, negative in FINITE]
    plain = [ja.plain(predicate, past=past, negative=negative) for past, negative in FINITE]
    more = [
        ja.attributive(predicate),
        ja.before_node(predicate),
        ja.attributive(predicate, past=True),
        ja.te(predicate),
        ja.conditional(predicate),
        ja.adverbial(predicate),
        ja.finite(ja.excess(predicate), past=True),
    ]
    return [form.text for form in (*polite, *plain, *more)]


@pytest.mark.parametrize("row", ADJECTIVE_TABLE.strip().splitlines(), ids=lambda row: row.split()[0])
def test_adjective_forms(row: str) -> None:
    """Guards against confused い- and な-adjectives: 静かくない, 高いではありません."""
    adjective, kind, *expected = row.split()
    assert _adjective_forms(adjective_predicate(adjective, kind)) == expected


def test_special_verbs_and_derivations() -> None:
    """Guards special cases: ある has no あらない; a third person's wish is たがる; gifts to the speaker's side are くれる."""
    exists = ja.Predicate("", "ある", "aru")
    assert [ja.finite(exists, past=p, negative=n).text for p, n in FINITE] == [
        "あります",
        "ありません",
        "ありました",
        "ありませんでした",
    ]
    assert ja.plain(exists, negative=True).text == "ない"
    assert ja.plain(exists, past=True, negative=True).text == "なかった"
    eat = verb_predicate("食べる", "ichidan")
    assert ja.finite(ja.evident_desire(eat), past=True, negative=True).text == "食べたがっていませんでした"
    assert ja.finite(ja.favor(verb_predicate("貸す", "godan")), past=True).text == "貸してくれました"
    assert ja.continuative(verb_predicate("遊ぶ", "godan")).text == "遊び"


def test_forms_split_at_word_boundaries() -> None:
    """Guards against links that end inside a word: 読み|ました, 勉強|します, 高く|ないです."""
    assert ja.finite(verb_predicate("読む", "godan"), past=True) == ("読み", "ました")
    assert ja.plain(verb_predicate("読む", "godan"), past=True) == ("読ん", "だ")
    assert ja.finite(ja.progressive(verb_predicate("読む", "godan"))) == ("読ん", "でいます")
    assert ja.finite(verb_predicate("勉強する", "suru")) == ("勉強", "します")
    assert ja.finite(adjective_predicate("高い", "i"), negative=True) == ("高く", "ないです")
    assert ja.finite(adjective_predicate("静かな", "na"), past=True) == ("静か", "でした")


def test_writing_and_reading_have_equal_endings() -> None:
    """Guards against a wrong reading or a wrong class in the lexicon: writing and reading would inflect differently."""
    for entry in (*VERBS, *ADJECTIVES):
        make = verb_predicate if entry in VERBS else adjective_predicate
        for past, negative in FINITE:
            written, read = (
                ja.finite(make(form, entry.kind), past=past, negative=negative).text
                for form in (entry.writing, entry.reading)
            )
            shared = 4 if past and negative else 2
            assert written[-shared:] == read[-shared:], (entry.english, written, read)


def test_invalid_input_is_rejected() -> None:
    """Guards against a typing error in the class column, which must not select another conjugation, and against numbers
    above ten and unknown counters."""
    with pytest.raises(ValueError, match="no verb class 'godann'"):
        ja.bases("読む", "godann")
    for number, counter in ((0, "本"), (11, "本"), (3, "丁")):
        with pytest.raises(ValueError, match="cannot count"):
            count(number, counter)


def test_counters_from_one_to_ten() -> None:
    """Guards the kanji: ten things are 十, not 十つ; and the interrogative, which is いくつ for つ."""
    assert [count(n, "匹") for n in (1, 2, 3, 10)] == ["一匹", "二匹", "三匹", "十匹"]
    assert [count(n, "つ") for n in (1, 9, 10)] == ["一つ", "九つ", "十"]
    assert [question(counter) for counter in ("個", "匹", "人", "つ")] == ["何個", "何匹", "何人", "いくつ"]
