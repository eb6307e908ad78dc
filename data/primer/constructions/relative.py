"""Build relative clauses: after the noun in English, before the noun in Japanese."""

from __future__ import annotations

from data.primer.constructions.adjectives import comparing
from data.primer.constructions.basic import by_people, sentence
from data.primer.constructions.combined import acting, again, explained, protagonist
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser, verbs
from data.primer.grammar.clauses import Clause, Mode, adjective_head, marked, verb_head
from data.primer.grammar.noun_phrases import Modifier, NounPhrase, asked, common
from data.primer.grammar.selectional_restrictions import PRICES, TRADING
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Word
from data.primer.lexicon import SEQUELS, Adjective, Noun, Verb, adjectives_for, causes, nouns, suiting, things, verb


def made_by(chooser: Chooser, action: Verb, entry: Noun, *others: NounPhrase) -> tuple[NounPhrase, Clause]:
    """Build a noun phrase with an object relative clause. Example: the cake that Ken made - ケンが作ったケーキ."""
    doer = chooser.person(*others)
    gap = marked(asked("", ""), "", action.particle, 0, 7)
    clause = Clause(verb_head(action), doer, Mode("past"), (gap,))
    japanese = clause.japanese(ja.attributive, topic="が", skip=(gap,))
    modifier = Modifier((Word("that"), *clause.english(gap=gap)), japanese, after=True)
    inner = Clause(clause.head, doer, clause.mode, (marked(common(entry), "", action.particle, 0, 7),))
    return common(entry, "the", modifier), inner


def who(chooser: Chooser) -> tuple[NounPhrase, Clause]:
    """Build a noun phrase with a subject relative clause. Example: the woman who bought the hat - 帽子を買った女の人."""
    role = chooser.pick(nouns("person"))
    action = chooser.pick(by_people(verbs()))
    blank = asked("", "", animate=True)
    clause = chooser.event(action, Mode("past"), blank, timed=0.2, placed=0.2, accompanied=0.1)
    while not clause.complements:  # 'the friend who slept' identifies nobody
        clause = chooser.event(action, Mode("past"), blank, timed=0.5, placed=0.5, accompanied=0.1)
    japanese = clause.japanese(ja.attributive, topic=None)
    return common(role, "the", Modifier((Word("who"), *clause.english(subject=False)), japanese, after=True)), clause


def made_thing(chooser: Chooser) -> tuple[Verb, Verb, Noun]:
    """Choose a first action, a second action and their object, e.g. make, eat, cake."""
    sequel = chooser.pick(SEQUELS)
    entry = chooser.pick(things(sequel))
    return verb(sequel.first, entry), verb(sequel.second, entry), entry


@construction(2.0)
def object_relative(chooser: Chooser) -> Draft:
    """Statement with an object relative clause. Example: Emi ate the cake that Ken made. - エミはケンが作ったケーキを食べました。"""
    action, other, entry = made_thing(chooser)
    subject = chooser.subject(("person", "named"))
    thing, inner = made_by(chooser, action, entry, subject)
    return sentence(acting(subject, other, thing, Mode("past", chooser.chance(0.2))), inner)


@construction(1.5)
def object_relative_quality(chooser: Chooser) -> Draft:
    """Quality of an object relative clause. Example: The cake that Ken made was sweet. - ケンが作ったケーキは甘かったです。"""
    action, _, entry = made_thing(chooser)
    thing, inner = made_by(chooser, action, entry)
    attribute = chooser.pick([attribute for attribute in adjectives_for(entry) if told_of(action, attribute)])
    mode = Mode(chooser.pick(("present", "past")), chooser.chance(0.2))
    return sentence(Clause(adjective_head(attribute), thing, mode), inner)


def told_of(action: Verb, attribute: Adjective) -> bool:
    """Whether the adjective suits an object of the verb: prices suit only traded things."""
    return attribute.english not in PRICES or action.english in TRADING


@construction(1.5)
def subject_relative(chooser: Chooser) -> Draft:
    """Subject relative clause as subject. Example: The woman who bought the hat was tired. - 帽子を買った女の人は疲れていました。"""
    person, inner = who(chooser)
    assert isinstance(person.entry, Noun)
    attribute = chooser.pick([attribute for attribute in adjectives_for(person.entry) if "person" in attribute.kinds])
    mode = Mode(chooser.pick(("present", "past")), chooser.chance(0.15))
    return sentence(Clause(adjective_head(attribute), person, mode), inner)


@construction(1.2)
def meeting_who(chooser: Chooser) -> Draft:
    """Subject relative clause as object. Example: Ken met the woman who lives in Tokyo. - ケンは東京に住んでいる女の人に会いました。"""
    action = verb(chooser.pick(("meet", "help", "wait for")), nouns("friend")[0])
    person, inner = who(chooser)
    subject = chooser.subject(("person", "named"))
    while any(c.entry is subject.entry for c in inner.complements if c.entry):
        subject = chooser.subject(("person", "named"))
    return sentence(acting(subject, action, person, Mode("past", chooser.chance(0.15))), inner)


@construction(1.0)
def compared_relatives(chooser: Chooser) -> Draft:
    """Comparison of two relative clauses. Example: The cake that Ken made is sweeter than the cake that Emi made. -
    ケンが作ったケーキはエミが作ったケーキより甘いです。"""
    action, _, entry = made_thing(chooser)
    first, inner = made_by(chooser, action, entry)
    second, other = made_by(chooser, action, entry, inner.subject)
    options = [
        attribute
        for attribute in adjectives_for(entry)
        if "nocompare" not in attribute.features and told_of(action, attribute)
    ]
    head = comparing(chooser.pick(options), second)
    return sentence(Clause(head, first, Mode(chooser.pick(("present", "past")))), inner, other)


@construction(1.2)
def because_of_relative(chooser: Chooser) -> Draft:
    """Relative clause with a reason. Example: Emi did not eat the cake that Ken made because it was sour. -
    ケンが作ったケーキがすっぱかったので、エミは食べませんでした。"""
    action, other, entry = made_thing(chooser)
    reasons = [cause for cause in causes(other, entry) if suiting(entry, cause.adjectives)]
    if not reasons:
        return because_of_relative(chooser)
    cause = chooser.pick(reasons)
    doer = protagonist(chooser)
    thing, inner = made_by(chooser, action, entry, doer)
    main = acting(doer, other, thing, Mode("past", cause.negative))
    why = Clause(adjective_head(chooser.pick(suiting(entry, cause.adjectives))), again(thing), Mode("past"))
    return explained(main, why, thing, inner)
