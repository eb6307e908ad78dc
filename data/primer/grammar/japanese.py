"""Inflect Japanese words: all forms that the grammar uses, from the dictionary form and the class of a word.

A `Predicate` is a verb, an adjective or a noun with copula at the end of a clause. Derivations (potential, progressive,
wish, duty …) map one predicate to another: 読む -> 読める (an ichidan verb) or 読みたい (an い-adjective). An inflected form is
a pair (stem, ending), split where a morphological analyser splits it: 読み|ました, 高く|ないです, 静か|でした, 勉強|します. The
English content word links to the stem; negation, auxiliaries and "be" link to the ending.

Classes: godan, ichidan, suru, kuru, iku (行く: godan but 行って), aru (ある: negative ない), i (い-adjective), ii (いい/よく),
da (a noun, な- or の-adjective with the copula).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple


class Inflected(NamedTuple):
    """An inflected form as stem and ending; its spelling is their concatenation."""

    stem: str
    ending: str

    @property
    def text(self) -> str:
        """The complete form."""
        return self.stem + self.ending


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate: fixed text `head` (the content part of a derived predicate) and inflected `tail` in dictionary
    form."""

    head: str
    tail: str
    kind: str
    link: str = "な"
    """Ending of a `da` predicate before a noun: 静か+な, 緑+の."""


class Bases(NamedTuple):
    """The traditional bases of a verb: 読ま(ない) 読み(ます) 読め(ば) 読も(う) and 読ん+で / 読ん+だ."""

    irrealis: str
    continuative: str
    hypothetical: str
    volitional: str
    onbin: str
    te: str
    ta: str


_GODAN = {
    "う": ("わ", "い", "え", "お", "っ", "て", "た"),
    "く": ("か", "き", "け", "こ", "い", "て", "た"),
    "ぐ": ("が", "ぎ", "げ", "ご", "い", "で", "だ"),
    "す": ("さ", "し", "せ", "そ", "し", "て", "た"),
    "つ": ("た", "ち", "て", "と", "っ", "て", "た"),
    "ぬ": ("な", "に", "ね", "の", "ん", "で", "だ"),
    "ぶ": ("ば", "び", "べ", "ぼ", "ん", "で", "だ"),
    "む": ("ま", "み", "め", "も", "ん", "で", "だ"),
    "る": ("ら", "り", "れ", "ろ", "っ", "て", "た"),
}


@cache
def bases(verb: str, kind: str) -> Bases:
    """Return the bases of a verb from its dictionary form, in kanji or in kana."""
    root = verb[:-1]
    if kind == "ichidan":
        return Bases(root, root, root + "れ", root + "よ", root, "て", "た")
    if kind == "suru":
        root = verb[:-2]
        return Bases(root + "し", root + "し", root + "すれ", root + "しよ", root + "し", "て", "た")
    if kind == "kuru":
        root, kanji = (verb[:-1], True) if verb.endswith("来る") else (verb[:-2], False)
        ki, ko, ku = ("", "", "") if kanji else ("き", "こ", "く")
        return Bases(root + ko, root + ki, root + ku + "れ", root + ko + "よ", root + ki, "て", "た")
    if kind not in ("godan", "iku", "aru"):
        raise ValueError(f"{verb}: no verb class {kind!r}")
    a, i, e, o, onbin, te, ta = _GODAN[verb[-1]]
    if kind == "iku":
        onbin, te, ta = "っ", "て", "た"
    return Bases(root + a, root + i, root + e, root + o, root + onbin, te, ta)


def _cut(predicate: Predicate, stem: str, ending: str) -> Inflected:
    """Split an inflected form; the stem of a derived predicate is always its content part."""
    return Inflected(predicate.head, stem + ending) if predicate.head else Inflected(stem, ending)


def finite(predicate: Predicate, *, past: bool = False, negative: bool = False, polite: bool = True) -> Inflected:
    """Return the form that ends a sentence: 食べます 食べませんでした 高くなかったです 静かだった …"""
    kind, tail = predicate.kind, predicate.tail
    if kind == "da":
        if negative:
            endings = ("ではありません", "ではありませんでした") if polite else ("ではない", "ではなかった")
        else:
            endings = ("です", "でした") if polite else ("だ", "だった")
        return Inflected(predicate.head, endings[past])
    if kind in ("i", "ii"):
        root = tail[:-2] + "よ" if kind == "ii" else tail[:-1]
        desu = "です" if polite else ""
        if negative:
            return _cut(predicate, root + "く", ("なかった" if past else "ない") + desu)
        return _cut(predicate, root + "かっ", "た" + desu) if past else _cut(predicate, tail, desu)
    verb = bases(tail, kind)
    if polite:
        ending = ("ませんでした" if past else "ません") if negative else ("ました" if past else "ます")
        return _cut(predicate, verb.continuative, ending)
    if negative:
        stem = tail[:-2] if kind == "aru" else verb.irrealis
        return _cut(predicate, stem, "なかった" if past else "ない")
    return _cut(predicate, verb.onbin, verb.ta) if past else _cut(predicate, tail, "")


def attributive(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the form before a noun: 食べた人, 高い山, 静かな町, 病気の犬."""
    if predicate.kind == "da" and not past and not negative:
        return Inflected(predicate.head, predicate.link)
    return finite(predicate, past=past, negative=negative, polite=False)


def before_node(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the form before ので and のに: plain, but 静かなので, 学生なので."""
    if predicate.kind == "da" and not past and not negative:
        return Inflected(predicate.head, "な")
    return finite(predicate, past=past, negative=negative, polite=False)


def te(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the て-form: 食べて, 高くて, 静かで; negative 食べなくて. The clause that follows carries the tense."""
    if negative:
        plain = finite(predicate, negative=True, polite=False)
        return Inflected(plain.stem, plain.ending[:-1] + "くて")
    if predicate.kind == "da":
        return Inflected(predicate.head, "で")
    if predicate.kind in ("i", "ii"):
        return _cut(predicate, _adverbial_stem(predicate), "て")
    verb = bases(predicate.tail, predicate.kind)
    return _cut(predicate, verb.onbin, verb.te)


def conditional(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the たら-form: 食べたら, 高かったら, 静かだったら, 食べなかったら."""
    plain = finite(predicate, past=True, negative=negative, polite=False)
    return Inflected(plain.stem, plain.ending + "ら")


def volitional(predicate: Predicate, *, past: bool = False, negative: bool = False, polite: bool = True) -> Inflected:
    """Return the volitional ('let us'): 行きましょう, plain 行こう."""
    verb = bases(predicate.tail, predicate.kind)
    return _cut(predicate, verb.continuative, "ましょう") if polite else _cut(predicate, verb.volitional, "う")


def dictionary(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the plain non-past form, whatever the tense: 読む before の, 前に."""
    return finite(predicate, negative=negative, polite=False)


def ta(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the plain past form, whatever the tense: 読んだ before 後で."""
    return finite(predicate, past=True, negative=negative, polite=False)


def plain(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the plain finite form."""
    return finite(predicate, past=past, negative=negative, polite=False)


def continuative(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the ます-stem, as used before ながら."""
    return _cut(predicate, bases(predicate.tail, predicate.kind).continuative, "")


def _adverbial_stem(predicate: Predicate) -> str:
    root = predicate.tail[:-2] + "よ" if predicate.kind == "ii" else predicate.tail[:-1]
    return root + "く"


def adverbial(predicate: Predicate) -> Inflected:
    """Return the form before なる and other verbs: 高く, よく, 静かに."""
    if predicate.kind == "da":
        return Inflected(predicate.head, "に")
    return _cut(predicate, _adverbial_stem(predicate), "")


# Derivations: a predicate from a predicate.


def _derive(stem: Inflected, kind: str) -> Predicate:
    return Predicate(stem.stem, stem.ending, kind)


def _after(stem: Inflected, suffix: str) -> Inflected:
    return Inflected(stem.stem, stem.ending + suffix)


def potential(predicate: Predicate) -> Predicate:
    """Derive the potential ('can'): 読める, 食べられる, できる, 来られる."""
    kind, tail = predicate.kind, predicate.tail
    if kind == "suru":
        return Predicate(predicate.head, tail[:-2] + "できる", "ichidan")
    verb = bases(tail, kind)
    if kind in ("ichidan", "kuru"):
        return _derive(_cut(predicate, verb.irrealis, "られる"), "ichidan")
    return Predicate(predicate.head, verb.hypothetical + "る", "ichidan")


def progressive(predicate: Predicate) -> Predicate:
    """Derive the progressive or resulting state: 読んでいる, 住んでいる."""
    return _derive(_after(te(predicate), "いる"), "ichidan")


def desiderative(predicate: Predicate) -> Predicate:
    """Derive the wish of the speaker or the addressee ('want to'): 食べたい."""
    return _derive(_after(continuative(predicate), "たい"), "i")


def evident_desire(predicate: Predicate) -> Predicate:
    """Derive the wish of anybody else ('want to'): 食べたがっている."""
    return _derive(_after(continuative(predicate), "たがっている"), "ichidan")


def permission(predicate: Predicate) -> Predicate:
    """Derive the permission ('may'): 食べてもいい."""
    return _derive(_after(te(predicate), "もいい"), "ii")


def release(predicate: Predicate) -> Predicate:
    """Derive the lack of a duty ('does not have to'): 食べなくてもいい."""
    return _derive(_after(te(predicate, negative=True), "もいい"), "ii")


def duty(predicate: Predicate) -> Predicate:
    """Derive the predicate whose negative form expresses a duty ('must'): 食べなければならない."""
    plain = finite(predicate, negative=True, polite=False)
    return _derive(Inflected(plain.stem, plain.ending[:-1] + "ければなる"), "godan")


def prohibition(predicate: Predicate) -> Predicate:
    """Derive the predicate whose negative form expresses a prohibition ('must not'): 食べてはいけない."""
    return _derive(_after(te(predicate), "はいける"), "ichidan")


def experience(predicate: Predicate) -> Predicate:
    """Derive the experience ('has ever done'): 食べたことがある."""
    return _derive(_after(finite(predicate, past=True, polite=False), "ことがある"), "aru")


def becoming(predicate: Predicate) -> Predicate:
    """Derive the change ('become'): 高くなる, 静かになる."""
    return _derive(_after(adverbial(predicate), "なる"), "godan")


def excess(predicate: Predicate) -> Predicate:
    """Derive the excess ('too'): 高すぎる, 危険すぎる, よすぎる."""
    if predicate.kind == "da":
        return Predicate(predicate.head, "すぎる", "ichidan")
    return _derive(_cut(predicate, _adverbial_stem(predicate)[:-1], "すぎる"), "ichidan")


def favor(predicate: Predicate) -> Predicate:
    """Derive the favour to the speaker's side: 見せてくれる."""
    return _derive(_after(te(predicate), "くれる"), "ichidan")


def request(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the request ('please'): 食べてください, 食べないでください."""
    if negative:
        return _after(finite(predicate, negative=True, polite=False), "でください")
    return _after(te(predicate), "ください")


Form = Callable[..., Inflected]
"""Function that returns the ending of a clause, called with the predicate and the keywords `past` and `negative`;
ignores keywords that the form cannot express."""
