"""Build noun phrases in both languages: names, pronouns, and nouns with determiners, numbers and modifiers."""

from __future__ import annotations

from dataclasses import dataclass

from data.primer.grammar import english
from data.primer.grammar.counters import count
from data.primer.grammar.japanese import attributive
from data.primer.grammar.tree import Link, Parts, Phrase, Referent, Word, text
from data.primer.lexicon import Adjective, Name, Noun


@dataclass(slots=True, eq=False)
class NounPhrase:
    """Both sides of a noun phrase without particle or preposition, and its features for agreement and reference."""

    english: Parts
    japanese: Parts
    entry: Noun | Name | None = None
    person: int = 3
    plural: bool = False
    object_form: Parts | None = None
    """The English object form if it differs, e.g. him."""
    quantity: Parts = ()
    """Number and counter, which follow the particle in Japanese: りんごを三個."""
    dropped: bool = False
    """Whether Japanese omits the noun phrase."""
    pronoun: str = "it"
    """The pronoun for later mentions."""
    animate: bool = False
    referent: Referent | None = None
    link: Link | None = None
    """Link of a pronoun to the Japanese words with the same meaning."""

    @property
    def as_object(self) -> Parts:
        """The English object form."""
        return self.object_form or self.english

    @property
    def speaker_side(self) -> bool:
        """Whether the phrase refers to the speaker or the speaker's family: giving to them is くれる."""
        return self.person == 1 or (isinstance(self.entry, Name) and self.entry.family)


def _mention(parts: Parts, referent: Referent | None, pronoun: bool = False, rival: Referent | None = None) -> Parts:
    return (Phrase(parts, referent, pronoun, rival),) if referent else parts


def name(entry: Name, referent: Referent | None = None) -> NounPhrase:
    """Build a noun phrase from a name. Example: Emi - エミ, my mother - 母."""
    link = Link()
    referent = referent or Referent(entry.english, entry.pronoun, entry.english)
    side = _mention((Word(entry.english, link, True),), referent)
    animate = entry.pronoun != "it"
    return NounPhrase(
        side, (Word(entry.writing, link, True),), entry, pronoun=entry.pronoun, animate=animate, referent=referent
    )


PRONOUNS = {
    "I": ("I", "me", "私", 1, False),
    "you": ("you", "you", "", 2, False),
    "he": ("he", "him", "彼", 3, False),
    "she": ("she", "her", "彼女", 3, False),
    "it": ("it", "it", "それ", 3, False),
    "we": ("we", "us", "私たち", 1, True),
    "they": ("they", "them", "彼ら", 3, True),
}
"""Subject form, object form, Japanese, person and plural of each pronoun. Japanese omits 'you' in questions."""

POSSESSIVES = {"I": "my", "he": "his", "she": "her", "it": "its", "we": "our", "they": "their"}


def pronoun(
    which: str,
    referent: Referent | None = None,
    dropped: bool = False,
    japanese: Parts | None = None,
    rival: Referent | None = None,
) -> NounPhrase:
    """Build a pronoun. `japanese` overrides the Japanese word (in stories often the repeated name), `dropped` omits it
    in Japanese, `rival` is another possible antecedent."""
    subject, obj, writing, person, plural = PRONOUNS[which]
    link = Link()
    dropped = dropped or which == "you"
    other_side = (Word(text(japanese) if japanese is not None else writing, link),)
    return NounPhrase(
        _mention((Word(subject, link),), referent, True, rival),
        () if dropped else other_side,
        None,
        person,
        plural,
        _mention((Word(obj, link),), referent, True, rival),
        dropped=dropped,
        pronoun=which,
        animate=which != "it",
        referent=referent,
        link=link,
    )


@dataclass(slots=True, eq=False)
class Determiner:
    """An English determiner and its Japanese counterpart, if any."""

    english: Parts
    japanese: Parts = ()


def determiner(word: str) -> Determiner:
    """Build a determiner: a, the, this, that, my, our, or a reflexive possessive (his, her: 自分の)."""
    if word in ("", "a", "the"):
        return Determiner((Word(word),) if word else ())
    link = Link()
    writing = {"this": "この", "that": "あの", "my": "私の", "our": "私たちの"}.get(word, "自分の")
    return Determiner((Word(word, link),), (Word(writing, link),))


def possessive(owner: NounPhrase) -> Determiner:
    """Build a possessive determiner. Example: Emi's - エミの."""
    link = Link()
    return Determiner((*owner.english, Word("'s", link)), (*owner.japanese, Word("の", link)))


@dataclass(slots=True, eq=False)
class Modifier:
    """An adjective, before the noun in both languages, or a relative clause, after the noun in English."""

    english: Parts
    japanese: Parts
    after: bool = False


def describing(adjective: Adjective) -> Modifier:
    """Build a modifier from an adjective. Example: red - 赤い, quiet - 静かな."""
    link = Link()
    writing = attributive(adjective.predicate).text
    return Modifier((Word(adjective.english, link, True),), (Word(writing, link, True),))


def numbered(number: int, counter: str) -> tuple[Parts, Parts]:
    """Build a number with its Japanese counter. Example: three - 三個."""
    link = Link()
    return (Word(english.NUMBERS[number], link, True),), (Word(count(number, counter), link, True),)


def common(
    noun: Noun,
    opening: Determiner | str = "the",
    *modifiers: Modifier,
    plural: bool = False,
    number: int | None = None,
    referent: Referent | None = None,
) -> NounPhrase:
    """Build a noun phrase with determiner, number and modifiers. With `number`, `quantity` holds numeral and counter.

    Japanese marks only the plural of definite people: the women 女の人たち, but doctors 医者, two women 女の人…二人.
    """
    several = plural and opening == "the" and "person" in noun.kinds and noun.english != "friend"
    opening = determiner(opening) if isinstance(opening, str) else opening
    link = Link()
    plural = plural or (number or 1) > 1
    numeral: Parts = ()
    quantity: Parts = ()
    if number is not None:
        assert noun.counter is not None, f"{noun.english} is not counted"
        numeral, quantity = numbered(number, noun.counter)
    form = noun.plural if plural and noun.plural else noun.english
    before: Parts = ()
    after: Parts = ()
    clauses: Parts = ()
    adjectives: Parts = ()
    for modifier in modifiers:
        if modifier.after:
            after, clauses = after + modifier.english, clauses + modifier.japanese
        else:
            before, adjectives = before + modifier.english, adjectives + modifier.japanese
    side = (*opening.english, *numeral, *before, Word(form, link, True), *after)
    ja = (*opening.japanese, *clauses, *adjectives, Word(noun.writing + "たち" * several, link, True))
    which = "they" if plural else next((word for word in ("he", "she") if word in noun.kinds), "it")
    referent = referent or Referent(noun.english, which, f"the {form}" if opening.english else form)
    return NounPhrase(
        _mention(side, referent),
        ja,
        noun,
        plural=plural,
        quantity=quantity,
        pronoun=which,
        animate=noun.animate,
        referent=referent,
    )


def together(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Join two noun phrases. Example: Emi and Ken - エミとケン."""
    link = Link()
    ja = (*first.japanese, Word("と", link), *second.japanese)
    return NounPhrase(
        (*first.english, Word("and", link), *second.english),
        ja,
        plural=True,
        object_form=(*first.as_object, Word("and", link), *second.as_object),
        pronoun="they",
        animate=first.animate,
    )


def asked(english_word: str, japanese_word: str, animate: bool = False) -> NounPhrase:
    """Build an interrogative. Example: what - 何, who - 誰."""
    link = Link()
    return NounPhrase((Word(english_word, link),), (Word(japanese_word, link),), animate=animate)
