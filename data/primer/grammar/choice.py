"""Choose words at random under selectional restrictions: subject, verb, object, place, time, companion."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from data.primer import lexicon
from data.primer.grammar import noun_phrases, selectional_restrictions
from data.primer.grammar.clauses import MIDDLE, Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.noun_phrases import Determiner, Modifier, NounPhrase, common, describing, possessive
from data.primer.grammar.selectional_restrictions import BARE, BRIEF, CREATING, FEMALE, OWNED, UNIQUE
from data.primer.grammar.tree import Link, Word
from data.primer.lexicon import CITIES, NAMES, TIMES, Name, Noun, Time, Verb, is_a, nouns

T = TypeVar("T")

CALLED = tuple(name for name in NAMES if not name.family)
FAMILY = tuple(name for name in NAMES if name.family)


@cache
def verbs(*, without: tuple[str, ...] = (), transitive: bool | None = None) -> tuple[Verb, ...]:
    """Return the verbs with one or two participants that have none of the features in `without`."""
    barred = {"double", "source", "apart", *without}
    return tuple(verb for verb in lexicon.VERBS if not verb.features & barred and transitive in (None, verb.transitive))


@cache
def places(verb: Verb, noun: Noun | None) -> tuple[Noun, ...]:
    """Return the places where the activity can happen, from the table of scenes."""

    def fits(scene: lexicon.Scene) -> bool:
        if scene.object is None:  # a verb alone is intransitive; 'meet' accepts any object
            return not verb.transitive or verb.english == "meet"
        return noun is not None and is_a(noun, (scene.object,))

    return tuple(lexicon.noun(scene.place) for scene in lexicon.SCENES if scene.verb == verb.english and fits(scene))


@cache
def objects(verb: Verb) -> tuple[Noun | Name, ...]:
    """Return the possible objects of the verb: nouns, cities and names of people."""
    entries: list[Noun | Name] = list(nouns(*verb.object))
    if "city" in verb.object:
        entries += CITIES
    return tuple(entries)


@cache
def _cast(
    kinds: tuple[str, ...], speaker: bool
) -> tuple[tuple[Name, ...], tuple[Name, ...], tuple[str, ...], tuple[Noun, ...]]:
    """Return the possible subjects of these kinds: names, the speaker's family, pronouns, nouns."""
    named = tuple(name for name in CALLED if is_a(name, kinds))
    family = tuple(name for name in FAMILY if is_a(name, kinds)) if speaker else ()
    pronouns = tuple(sorted({name.pronoun for name in named}))
    if len(pronouns) == 2:
        pronouns += ("they", "I", "we") if speaker else ("they",)
    return named, family, pronouns, nouns(*kinds)


class Chooser:
    """Source of all randomness in the grammar: only `Random.random()`, whose stream is the same in every Python."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options, uniformly."""
        return options[int(self._random() * len(options))]

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random() < probability

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """Return one of the options, with probability proportional to its weight."""
        left = self._random() * math.fsum(weight for _, weight in options)  # sum() differs from Python 3.12 on
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]

    def pair(self, options: Sequence[T]) -> tuple[T, T]:
        """Return two different options."""
        first = int(self._random() * len(options))
        second = int(self._random() * (len(options) - 1))
        return options[first], options[second + (second >= first)]

    def several(self, options: Sequence[T], count: int) -> tuple[T, ...]:
        """Return `count` different options, in random order."""
        left = list(options)
        return tuple(left.pop(int(self._random() * len(left))) for _ in range(count))

    # Who

    def person(self, *others: NounPhrase) -> NounPhrase:
        """Return a person's name that is not among `others`."""
        taken = {other.entry for other in others}
        while (entry := self.pick(CALLED)) in taken:
            pass
        return noun_phrases.name(entry)

    def subject(self, kinds: tuple[str, ...], speaker: bool = True) -> NounPhrase:
        """Return a possible subject: a name, a pronoun or a noun. `speaker` allows 'I', 'we', 'my mother'."""
        names, family, pronouns, roles = _cast(kinds, speaker)
        draw = self._random()
        if names and (draw < 0.5 or (not roles and draw < 0.72)):
            return noun_phrases.name(self.pick(names))
        if family and draw < 0.58 + 0.2 * (not roles):
            return noun_phrases.name(self.pick(family))
        if pronouns and (draw < 0.78 or not roles):
            return noun_phrases.pronoun(self.pick(pronouns))
        role = self.pick(roles)
        if role.english == "friend":
            return common(role, "my") if speaker else self.person()
        return common(role, "the", *self.describe(role, 0.15), plural=self.chance(0.15))

    def describe(self, noun: Noun, probability: float, priced: bool = False) -> tuple[Modifier, ...]:
        """Return an adjective that suits the noun, or none; price adjectives only with verbs of trade (`priced`)."""
        barred = selectional_restrictions.HUNGER | (
            selectional_restrictions.FLAWS if priced else selectional_restrictions.PRICES
        )
        barred = barred | selectional_restrictions.SIZES if noun.english in selectional_restrictions.PAPERS else barred
        options = [adjective for adjective in lexicon.adjectives_for(noun) if adjective.english not in barred]
        return (describing(self.pick(options)),) if options and self.chance(probability) else ()

    # What

    def opening(self, noun: Noun, subject: NounPhrase | None, owned: bool) -> Determiner | str:
        """Return a determiner that suits the noun; `owned` allows possessives."""
        if noun.kinds & BARE or (noun.plural is None and not noun.kinds & OWNED and noun.english not in UNIQUE):
            return "" if noun.kinds & BARE or self.chance(0.6) else "the"
        if noun.english in UNIQUE:
            return "the"
        draw = self._random()
        if owned and noun.kinds & OWNED and not noun.kinds & FEMALE and noun.english != "classroom" and draw < 0.3:
            pronoun_form = noun_phrases.POSSESSIVES.get(subject.pronoun) if subject else None
            if pronoun_form in ("his", "her") and draw < 0.15:
                return pronoun_form
            if subject and subject.person == 1:
                return "the"
            return "my" if draw < 0.2 else possessive(self.person(*([subject] if subject else [])))
        if "clean" in noun.kinds or noun.plural is None:
            return "the"
        return "a" if draw < 0.6 else "the" if draw < 0.86 else "this" if draw < 0.93 else "that"

    def known(self, noun: Noun, subject: NounPhrase | None = None, described: float = 0.2) -> NounPhrase:
        """Build a definite noun phrase as a subject. Example: the cat, this cat, Emi's cat."""
        if noun.kinds & BARE:
            return self.kind_of(noun)
        if noun.english == "friend":
            return common(noun, "my")
        modifiers = self.describe(noun, described)
        draw = self._random()
        if noun.kinds & OWNED and not noun.kinds & FEMALE and draw < 0.3:
            return common(noun, "my" if draw < 0.08 else possessive(self.person()), *modifiers)
        opening = "the" if draw < 0.8 or noun.plural is None else "this" if draw < 0.92 else "that"
        return common(noun, opening, *modifiers)

    def thing(
        self,
        noun: Noun,
        subject: NounPhrase | None = None,
        *,
        owned: bool = True,
        described: float = 0.25,
        counted: float = 0.0,
        priced: bool = False,
        pointed: bool = True,
    ) -> NounPhrase:
        """Build a noun phrase. Example: an apple, the red apple, three apples. `pointed` allows 'this apple'."""
        if noun.counter and not noun.kinds & {"place"} and self.chance(counted):
            return common(noun, "", *self.describe(noun, described / 2, priced), number=2 + int(self._random() * 4))
        opening = self.opening(noun, subject, owned)
        if noun.english == "friend":
            return common(noun, "a")
        opening = "a" if opening in ("this", "that") and not pointed else opening
        modifiers = () if noun.kinds & BARE else self.describe(noun, described, priced)
        plural = opening == "the" and noun.plural is not None and noun.english not in UNIQUE and self.chance(0.15)
        return common(noun, opening, *modifiers, plural=plural and not noun.kinds & {"place", "public"})

    def kind_of(self, noun: Noun) -> NounPhrase:
        """Build a generic noun phrase. Example: apples, milk, pizza, the violin."""
        if noun.english in selectional_restrictions.UNCOUNTED:
            return common(noun, "")
        if noun.english in UNIQUE or "instrument" in noun.kinds:
            return common(noun, "the")
        return common(noun, "", plural=noun.plural is not None)

    def goal(self, entry: Noun | Name) -> NounPhrase:
        """Build the noun phrase that first mentions a destination. Example: the park, school, Kyoto."""
        if isinstance(entry, Name):
            return noun_phrases.name(entry)
        return common(entry, "" if entry.english == "school" else "the")

    def object(
        self, verb: Verb, subject: NounPhrase, mode: Mode, counted: float = 0.0, generic: bool = False
    ) -> Complement:
        """Build an object that suits the verb, with its particle.

        A negated clause has no adjective ('did not eat the delicious cake' is odd). A habit has a generic food ('washes
        apples every day', not 'the apple').
        """
        if "named" in verb.object or ("person" in verb.object and self.chance(0.6)):
            phrase = self.person(subject)
        else:
            candidates = objects(verb)
            if generic and verb.english == "buy":
                candidates = nouns(*selectional_restrictions.GROCERIES)
            entry = self.pick(candidates)
            owned = "gain" not in verb.features and verb.english != "return"  # nobody returns his own things
            habitual = mode.tense == "present" and not mode.modality
            fresh = habitual and isinstance(entry, Noun) and bool(entry.kinds & {"food", "vegetable"})
            if isinstance(entry, Noun) and entry.english == "homework":
                phrase = common(entry, own_work(subject))
            elif (generic or fresh) and isinstance(entry, Noun) and _kind_is_meant(verb, entry):
                phrase = self.kind_of(entry)
            elif isinstance(entry, Name) or ("place" in entry.kinds and verb.english in selectional_restrictions.GOING):
                phrase = self.goal(entry)
            else:
                fleeting = verb.english in CREATING or entry.animate
                described = 0.08 if fleeting or verb.english in BRIEF else 0.2
                if mode.negative or verb.english in selectional_restrictions.UNSEEN or "person" in entry.kinds:
                    described = 0.0
                phrase = self.thing(
                    entry,
                    subject,
                    owned=owned,
                    described=described,
                    counted=counted,
                    priced=verb.english in selectional_restrictions.TRADING,
                    pointed=not fleeting,
                )
            if isinstance(entry, Noun) and "instrument" in entry.kinds and verb.english in ("play", "practice"):
                phrase = common(entry, "the")
        # Objects of a skill take が; an animate object with が would read as the subject.
        skill = (
            mode.modality == "can"
            and verb.particle == "を"
            and verb.english in selectional_restrictions.SKILLS
            and not phrase.animate
        )
        return marked(phrase, "", "が" if skill else verb.particle, 0, 7)

    # When, where, how

    def time(self, *tenses: str, brief: bool = False) -> Complement:
        """Build a time expression. Example: yesterday, every morning. `brief` excludes spans of a week or more."""
        candidates = [time for time in TIMES if time.tense in tenses]
        return when(
            self.pick(
                [time for time in candidates if time.english in selectional_restrictions.DAILY] if brief else candidates
            )
        )

    def frequency(self) -> Complement:
        """Build an adverb of frequency. Example: often, always."""
        return when(self.pick([time for time in TIMES if time.tense == "frequency"]), MIDDLE)

    def seldom(self) -> Complement:
        """Build 'not often' (あまり), the only frequency of a negated habit: 'not every day' is not 毎日…ない."""
        return when(next(time for time in TIMES if time.tense == "seldom"), MIDDLE, 6)

    def place(self, verb: Verb, noun: Noun | None) -> Complement | None:
        """Build the place of the event; None if the table of scenes has no place for it."""
        candidates = places(verb, noun)
        if not candidates:
            return None
        where = self.pick(candidates)
        return marked(self.goal(where), selectional_restrictions.preposition(where), "で", 4, 2)

    def companion(self, *others: NounPhrase) -> Complement:
        """Build a complement that names a companion. Example: with Emi - エミと."""
        return marked(self.person(*others), "with", "と", 2, 3)

    def means(self) -> Complement:
        """Build a complement that names a means of transport. Example: by bus - バスで."""
        return marked(common(self.pick(nouns("transport")), ""), "by", "で", 3, 4)

    # Events

    def event(
        self,
        verb: Verb,
        mode: Mode,
        subject: NounPhrase | None = None,
        *,
        timed: float = 0.5,
        placed: float = 0.3,
        accompanied: float = 0.15,
        counted: float = 0.12,
        question: bool = False,
        speaker: bool = True,
        generic: bool = False,
    ) -> Clause:
        """Build a clause with the verb, suitable subject and object, and optionally time, place, companion, means."""
        subject = subject or self.subject(verb.subject, speaker)
        complements: list[Complement] = []
        noun: Noun | None = None
        habitual = mode.tense == "present" and not mode.modality
        generic = (
            generic
            or verb.english in selectional_restrictions.SLOW
            or (habitual and verb.english in (*selectional_restrictions.GENERIC, "buy"))
        )
        if verb.transitive:
            if verb.particle != "を" or "stative" in verb.features or mode.modality == "progressive":
                counted = 0.0  # unnatural: 犬に三匹触る, is eating five melons
            direct = self.object(verb, subject, mode, counted, generic)
            noun = direct.entry if isinstance(direct.entry, Noun) else None
            complements.append(direct)
        if self.chance(placed) and (where := self.place(verb, noun)):
            complements.append(where)
        if "together" in verb.features and subject.animate and not is_animal(subject) and self.chance(accompanied):
            complements.append(self.companion(subject))
        if "means" in verb.features and mode.modality != "experience" and self.chance(0.25):
            complements.append(self.means())
        lasting = "stative" in verb.features or verb.english in selectional_restrictions.SLOW
        if habitual and "stative" not in verb.features and not mode.negative:
            complements.append(self.frequency() if self.chance(0.4) else self.time("habit"))
        elif habitual and "stative" not in verb.features:
            complements += [self.seldom()] if self.chance(0.5) else []
        elif mode.tense != "present" and not lasting and self.chance(timed):
            complements.append(self.time(mode.tense, brief=verb.english in BRIEF))
        return Clause(verb_head(verb), subject, mode, tuple(complements), question)


def own_work(subject: NounPhrase) -> Determiner:
    """Return my, your, her (homework; Japanese has 宿題 alone), or 'the' if no possessive suits the subject."""
    possessives = noun_phrases.POSSESSIVES | {"you": "your", "it": "the"}
    return Determiner((Word(possessives.get(subject.pronoun, "the")),))


def is_animal(phrase: NounPhrase) -> bool:
    """Whether the phrase refers to an animal; animals never take a companion phrase ('with Emi')."""
    return phrase.entry is not None and "animal" in phrase.entry.kinds


def _kind_is_meant(verb: Verb, noun: Noun) -> bool:
    """Whether 'like' accepts the verb with a generic object: climbing mountains, but not going to parks."""
    return verb.english == "climb" or not noun.kinds & {"place", "public", "seat"}


def when(time: Time, rank: int = 9, japanese_rank: int = 1) -> Complement:
    """Build a complement from a time expression."""
    link = Link()
    return Complement((Word(time.english, link, True),), (Word(time.writing, link, True),), rank, japanese_rank)
