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
from functools import cache, partial
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
    """A predicate: fixed `head` (content part of a derived predicate) and inflected `tail` in dictionary form."""

    head: str
    tail: str
    kind: str
    link: str = "な"
    """Ending of a `da` predicate before a noun: 静か+な, 緑+の."""


class Bases(NamedTuple):
    """The traditional bases of a verb: 読ま(ない) 読み(ます) 読め(ば) and 読ん+で / 読ん+だ."""

    irrealis: str
    continuative: str
    hypothetical: str
    onbin: str
    te: str
    ta: str


_GODAN = {
    "う": ("わ", "い", "え", "っ", "て", "た"),
    "く": ("か", "き", "け", "い", "て", "た"),
    "ぐ": ("が", "ぎ", "げ", "い", "で", "だ"),
    "す": ("さ", "し", "せ", "し", "て", "た"),
    "つ": ("た", "ち", "て", "っ", "て", "た"),
    "ぬ": ("な", "に", "ね", "ん", "で", "だ"),
    "ぶ": ("ば", "び", "べ", "ん", "で", "だ"),
    "む": ("ま", "み", "め", "ん", "で", "だ"),
    "る": ("ら", "り", "れ", "っ", "て", "た"),
}


@cache
def bases(verb: str, kind: str) -> Bases:
    """Return the bases of a verb from its dictionary form, in kanji or in kana."""
    root = verb[:-1]
    if kind == "ichidan":
        return Bases(root, root, root + "れ", root, "て", "た")
    if kind == "suru":
        shi = verb[:-2] + "し"
        return Bases(shi, shi, verb[:-2] + "すれ", shi, "て", "た")
    if kind == "kuru":
        ko, ki, ku = (root, root, root) if verb.endswith("来る") else (verb[:-2] + kana for kana in "こきく")
        return Bases(ko, ki, ku + "れ", ki, "て", "た")
    if kind not in ("godan", "iku", "aru"):
        raise ValueError(f"{verb}: no verb class {kind!r}")
    a, i, e, onbin, te, ta = _GODAN[verb[-1]]
    if kind == "iku":
        onbin, te, ta = "っ", "て", "た"
    return Bases(root + a, root + i, root + e, root + onbin, te, ta)


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


plain = partial(finite, polite=False)
"""Plain finite form."""


def attributive(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the form before a noun: 食べた人, 高い山, 静かな町, 病気の犬."""
    if predicate.kind == "da" and not past and not negative:
        return Inflected(predicate.head, predicate.link)
    return plain(predicate, past=past, negative=negative)


def before_node(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the form before ので and のに: plain, but 静かなので, 学生なので."""
    if predicate.kind == "da" and not past and not negative:
        return Inflected(predicate.head, "な")
    return plain(predicate, past=past, negative=negative)


def te(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the て-form: 食べて, 高くて, 静かで; negative 食べなくて. The clause that follows carries the tense."""
    if negative:
        stem, ending = plain(predicate, negative=True)
        return Inflected(stem, ending[:-1] + "くて")
    if predicate.kind == "da":
        return Inflected(predicate.head, "で")
    if predicate.kind in ("i", "ii"):
        return _cut(predicate, _adverbial_stem(predicate), "て")
    verb = bases(predicate.tail, predicate.kind)
    return _cut(predicate, verb.onbin, verb.te)


def conditional(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the たら-form: 食べたら, 高かったら, 静かだったら, 食べなかったら."""
    stem, ending = plain(predicate, past=True, negative=negative)
    return Inflected(stem, ending + "ら")


def dictionary(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the plain non-past form, whatever the tense: 読む before の, 前に."""
    return plain(predicate, negative=negative)


def ta(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the plain past form, whatever the tense: 読んだ before 後で."""
    return plain(predicate, past=True, negative=negative)


def continuative(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the ます-stem, as used before ながら."""
    return _cut(predicate, bases(predicate.tail, predicate.kind).continuative, "")


def volitional(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the polite volitional ('let us'): 行きましょう."""
    return _cut(predicate, bases(predicate.tail, predicate.kind).continuative, "ましょう")


def request(predicate: Predicate, *, past: bool = False, negative: bool = False) -> Inflected:
    """Return the request ('please'): 食べてください, 食べないでください."""
    stem, ending = plain(predicate, negative=True) if negative else te(predicate)
    return Inflected(stem, ending + ("でください" if negative else "ください"))


def _adverbial_stem(predicate: Predicate) -> str:
    root = predicate.tail[:-2] + "よ" if predicate.kind == "ii" else predicate.tail[:-1]
    return root + "く"


def adverbial(predicate: Predicate) -> Inflected:
    """Return the form before なる and other verbs: 高く, よく, 静かに."""
    if predicate.kind == "da":
        return Inflected(predicate.head, "に")
    return _cut(predicate, _adverbial_stem(predicate), "")


Form = Callable[..., Inflected]
"""Inflects a predicate, given the keywords `past` and `negative`; ignores keywords that the form cannot express."""
Derivation = Callable[[Predicate], Predicate]
"""Derives a predicate from a predicate."""


def _suffixed(form: Form, suffix: str, kind: str) -> Derivation:
    """Return a derivation: a form of the predicate and a suffix, which inflects as `kind`."""

    def derive(predicate: Predicate) -> Predicate:
        stem, ending = form(predicate)
        return Predicate(stem, ending + suffix, kind)

    return derive


progressive = _suffixed(te, "いる", "ichidan")
"""Progressive or resulting state: 読んでいる, 住んでいる."""
desiderative = _suffixed(continuative, "たい", "i")
"""Wish of the speaker or the addressee ('want to'): 食べたい."""
evident_desire = _suffixed(continuative, "たがっている", "ichidan")
"""Wish of a third person ('wants to'): 食べたがっている."""
permission = _suffixed(te, "もいい", "ii")
"""Permission ('may'): 食べてもいい."""
release = _suffixed(partial(te, negative=True), "もいい", "ii")
"""Absence of obligation ('does not have to'): 食べなくてもいい."""
prohibition = _suffixed(te, "はいける", "ichidan")
"""Prohibition ('must not'), which is expressed by the negative form: 食べてはいけない."""
experience = _suffixed(ta, "ことがある", "aru")
"""Experience ('has ever done'): 食べたことがある."""
favor = _suffixed(te, "くれる", "ichidan")
"""Favour to the speaker's side: 見せてくれる."""


def duty(predicate: Predicate) -> Predicate:
    """Derive the predicate whose negative form expresses an obligation ('must'): 食べなければならない."""
    stem, ending = plain(predicate, negative=True)
    return Predicate(stem, ending[:-1] + "ければなる", "godan")


def potential(predicate: Predicate) -> Predicate:
    """Derive the potential ('can'): 読める, 食べられる, できる, 来られる."""
    kind, tail = predicate.kind, predicate.tail
    if kind == "suru":
        return Predicate(predicate.head, tail[:-2] + "できる", "ichidan")
    verb = bases(tail, kind)
    if kind in ("ichidan", "kuru"):
        return Predicate(*_cut(predicate, verb.irrealis, "られる"), "ichidan")
    return Predicate(predicate.head, verb.hypothetical + "る", "ichidan")


def excess(predicate: Predicate) -> Predicate:
    """Derive the form for an excess ('too'): 高すぎる, 危険すぎる, よすぎる."""
    if predicate.kind == "da":
        return Predicate(predicate.head, "すぎる", "ichidan")
    return Predicate(*_cut(predicate, _adverbial_stem(predicate)[:-1], "すぎる"), "ichidan")
