"""Build a clause once, as predicate, subject and complements, and write it in two orders: English SVO, Japanese SOV.

The languages differ most in the verb group. English expresses tense, negation and modality by auxiliaries ("did not
want to"), Japanese by the ending of the predicate (食べ|たがっていませんでした). So auxiliaries, "be" and "not" link to the ending,
and the content word links to the stem; without an auxiliary ("ate"), one link covers stem and ending.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from data.primer.grammar import english as en
from data.primer.grammar import japanese as ja
from data.primer.grammar.noun_phrases import NounPhrase
from data.primer.grammar.tree import Link, Part, Parts, Referent, Word
from data.primer.lexicon import Adjective, Name, Noun, Verb


@dataclass(slots=True, eq=False)
class Complement:
    """An object, place, time …: both sides with preposition and particle, and its rank in either word order."""

    english: Parts
    japanese: Parts
    english_rank: int
    japanese_rank: int
    entry: Noun | Name | None = None
    phrase: NounPhrase | None = None

    @property
    def of(self) -> Referent | None:
        """The referent that the complement mentions, if any."""
        return self.phrase.referent if self.phrase else None


# Complements are ordered by rank. Japanese ranks: 1 time, 2 place, 3 companion, 4 means, 5 start, 6 recipient, 7 object
# or goal, 8 quantity, manner.
MIDDLE = -1
"""English rank of adverbs between auxiliary and verb, e.g. always, often."""


def marked(phrase: NounPhrase, preposition: str, particle: str, english_rank: int, japanese_rank: int) -> Complement:
    """Build a complement from a noun phrase, with preposition (none for an object) and particle, which share a link."""
    link = Link() if preposition else None
    english_side = (Word(preposition, link), *phrase.as_object) if preposition else phrase.as_object
    other_side = () if phrase.dropped else (*phrase.japanese, Word(particle, link), *phrase.quantity)
    return Complement(english_side, other_side, english_rank, japanese_rank, phrase.entry, phrase)


@dataclass(frozen=True, slots=True)
class Mode:
    """Tense, polarity, modality and style of a clause."""

    tense: str = "past"
    """past, present or future; Japanese distinguishes only past and non-past."""
    negative: bool = False
    modality: str = ""
    contracted: bool = False
    """Casual English with contractions (doesn't, isn't, she'll), hence plain Japanese."""


@dataclass(slots=True, eq=False)
class Head:
    """The syntactic head of a clause: a verb, or the adjective or noun after 'be'."""

    predicate: ja.Predicate
    verb: Verb | None = None
    english: Parts = ()
    before: Parts = ()
    """Japanese words directly before the predicate, e.g. the noun phrase of 'is a doctor'."""
    link: Link | None = field(default_factory=Link)
    """Link of the content word; None if the predicate means only 'be', as います in 猫は庭にいます."""
    lemma: str = ""


def verb_head(verb: Verb, predicate: ja.Predicate | None = None, lemma: str = "") -> Head:
    """Build the head of a clause from a verb; `predicate` overrides the Japanese word of the lexicon."""
    return Head(predicate or verb.predicate, verb, lemma=lemma or verb.english)


def adjective_head(
    adjective: Adjective, english: Parts | None = None, before: Parts = (), link: Link | None = None
) -> Head:
    """Build the head of a clause from an adjective. Example: is big - 大きいです. `english` replaces the plain adjective
    ('more interesting than …') and carries `link`; `before` precedes the Japanese adjective (とても, より …)."""
    link = link or Link()
    side = english or (Word(adjective.english, link, True),)
    return Head(adjective.predicate, None, side, before, link, adjective.english)


def noun_head(phrase: NounPhrase) -> Head:
    """Build the head of a clause from a noun phrase. Example: is a doctor - 医者です."""
    lemma = phrase.entry.english if phrase.entry else ""
    return Head(ja.Predicate("", "", "da", "の"), None, phrase.english, phrase.japanese, lemma=lemma)


@dataclass(frozen=True, slots=True)
class Modality:
    """A modality in English (finite word, words before the verb, form of the verb) and its derivation in Japanese."""

    finite: str
    particle: str
    form: str
    derive: ja.Derivation
    derive_negative: ja.Derivation | None = None
    positive_is_negative: bool = False
    negative_is_negative: bool = True


MODALITIES = {
    "progressive": Modality("be", "", "ing", ja.progressive),
    "can": Modality("can", "", "base", ja.potential),
    "want": Modality("want", "to", "base", ja.evident_desire),
    "must": Modality("must", "", "base", ja.duty, ja.prohibition, positive_is_negative=True),
    "have to": Modality(
        "have", "to", "base", ja.duty, ja.release, positive_is_negative=True, negative_is_negative=False
    ),
    "may": Modality("may", "", "base", ja.permission),
    "experience": Modality("have been", "", "participle", ja.experience),
}
NONFINITE = "nonfinite"
"""Modality of a clause without a finite English verb: imperative, infinitive, gerund."""
_MODALS = {"can": "could", "must": "must", "may": "may", "will": "will"}


@dataclass(eq=False)
class Clause:
    """A clause. `question` inverts the English word order; it is a field here because the verb group depends on it."""

    head: Head
    subject: NounPhrase
    mode: Mode = Mode()
    complements: tuple[Complement, ...] = ()
    question: bool = False
    ending: Link = field(default_factory=Link)
    """Link of the English auxiliaries to the Japanese ending."""
    predicate: ja.Predicate = field(init=False)
    negative: bool = field(init=False)
    _auxiliary: Parts = field(init=False)
    _verb: Parts = field(init=False)

    def __post_init__(self) -> None:
        self._auxiliary, self._verb = self._verb_group()
        self.predicate, self.negative = self._derived()

    # English

    def _finite(self, lexeme: str, verb: Verb | None, bare: bool) -> str:
        """Return the finite form of 'be', a modal, 'have', 'want' or the verb itself, in agreement with the subject."""
        subject, past = self.subject, self.mode.tense == "past"
        if lexeme == "be":
            return "be" if bare else en.be(subject.person, subject.plural, past)
        if lexeme in _MODALS:
            return _MODALS[lexeme] if past else lexeme
        base = verb.english if verb else lexeme
        if past and not bare:
            return verb.past if verb else "had" if lexeme == "have" else en.past(lexeme)
        return en.third_person(base) if subject.person == 3 and not subject.plural and not bare else base

    def _verb_group(self) -> tuple[Parts, Parts]:
        """Return the auxiliaries (a question inverts the first) and the rest of the verb group."""
        head, mode, ending = self.head, self.mode, self.ending
        modality = MODALITIES.get(mode.modality)
        if mode.modality == NONFINITE:
            return (), ()
        lexeme, verb, rest = "be", None, list(head.english)
        if head.verb is not None:
            if modality is None:
                lexeme, verb, rest = "", head.verb, []
            else:
                base = head.verb.english
                form = {"base": base, "ing": en.ing(base), "participle": head.verb.participle}[modality.form]
                particle: list[Part] = [Word(modality.particle, ending)] if modality.particle else []
                lexeme, rest = modality.finite, [*particle, Word(form, head.link, True)]
        perfect = lexeme == "have been"
        lexeme = "have" if perfect else lexeme
        lexical = lexeme not in ("be", *_MODALS) and not perfect
        finite_link = head.link if verb else ending
        content = verb is not None
        if mode.tense == "future":
            auxiliary, rest = "will", [Word(self._finite(lexeme, verb, True), finite_link, content), *rest]
        elif lexical and (self.question or mode.negative):
            third = self.subject.person == 3 and not self.subject.plural
            auxiliary = "did" if mode.tense == "past" else "does" if third else "do"
            rest = [Word(self._finite(lexeme, verb, True), finite_link, content), *rest]
        elif lexical:
            return (), (Word(self._finite(lexeme, verb, False), finite_link, content), *rest)
        else:
            auxiliary = self._finite(lexeme, None, False)
        if not mode.negative:
            attached = mode.contracted and self.subject.entry is None and not self.question
            return (Word(en.ATTACHED.get(auxiliary, auxiliary) if attached else auxiliary, ending),), tuple(rest)
        short = en.CONTRACTIONS.get(auxiliary) if mode.contracted else "cannot" if auxiliary == "can" else None
        if short:
            return (Word(short, ending),), tuple(rest)
        return (Word(auxiliary, ending), Word("never" if perfect else "not", ending)), tuple(rest)

    def english(self, *, subject: bool = True, gap: Complement | None = None) -> Parts:
        """Return the clause in English order, without punctuation and `gap`, a complement expressed elsewhere."""
        complements = [complement for complement in self.complements if complement is not gap]
        middle = [
            part for complement in complements if complement.english_rank == MIDDLE for part in complement.english
        ]
        after = sorted(
            (c for c in complements if c.english_rank != MIDDLE), key=lambda complement: complement.english_rank
        )
        who = self.subject.english if subject else ()
        tail = [part for complement in after for part in complement.english]
        if self.question and subject:
            return (*self._auxiliary[:1], *who, *self._auxiliary[1:], *middle, *self._verb, *tail)
        return (*who, *self._auxiliary, *middle, *self._verb, *tail)

    def _bare(self, form: str) -> Parts:
        tail = sorted(self.complements, key=lambda complement: complement.english_rank)
        return (Word(form, self.head.link, True), *(part for complement in tail for part in complement.english))

    def infinitive(self) -> Parts:
        """Return the infinitive without 'to'. Example: borrow a book."""
        assert self.head.verb is not None
        return self._bare(self.head.verb.english)

    def gerund(self) -> Parts:
        """Return the gerund. Example: swimming in the sea."""
        assert self.head.verb is not None
        return self._bare(en.ing(self.head.verb.english))

    def imperative(self, opening: str) -> Parts:
        """Return the imperative; its first words link to the Japanese ending. Example: please do not open it."""
        negation = (Word("do not", self.ending),) if self.mode.negative else ()
        return (Word(opening, self.ending), *negation, *self.infinitive())

    # Japanese

    def _derived(self) -> tuple[ja.Predicate, bool]:
        """Return the Japanese predicate with modality, and whether Japanese negates it."""
        verb, mode, predicate = self.head.verb, self.mode, self.head.predicate
        modality = MODALITIES.get(mode.modality)
        if modality is None:
            stative = verb is not None and "stative" in verb.features and mode.tense != "future"
            return (ja.progressive(predicate) if stative else predicate), mode.negative
        derive = modality.derive
        if mode.modality == "want" and self.subject.person != 3:
            derive = ja.desiderative  # たい is for the speaker and the addressee; たがる for all others
        if mode.negative:
            return (modality.derive_negative or derive)(predicate), modality.negative_is_negative
        return derive(predicate), modality.positive_is_negative

    def japanese(
        self, form: ja.Form | None = None, *, topic: str | None = "は", skip: tuple[Complement, ...] = ()
    ) -> Parts:
        """Return the clause in Japanese word order.

        `form`: inflection at the end (default: polite, or plain when contracted); `topic`: particle of the subject,
        None omits the subject; `skip`: complements that are expressed elsewhere.
        """
        order = sorted((c for c in self.complements if c not in skip), key=lambda complement: complement.japanese_rank)
        parts = [part for complement in order for part in complement.japanese]
        if topic is not None and not self.subject.dropped:
            parts = [*self.subject.japanese, Word(topic), *parts]
        return (*parts, *self.ended(form))

    def ended(self, form: ja.Form | None = None) -> Parts:
        """Return the inflected predicate: its stem is linked to the content word, its ending to English auxiliaries."""
        past = self.mode.tense == "past"
        if form is None:
            inflected = ja.finite(self.predicate, past=past, negative=self.negative, polite=not self.mode.contracted)
        else:
            inflected = form(self.predicate, past=past, negative=self.negative)
        ending = self.ending if self._auxiliary or self.mode.modality else self.head.link
        content = self.head.link is not None
        stem = Word(inflected.stem, self.head.link if content else ending, content)
        return (*self.head.before, stem, Word(inflected.ending, ending))
