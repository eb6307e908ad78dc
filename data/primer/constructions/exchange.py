"""Build sentences with 'give', 'receive' and similar verbs; Japanese distinguishes the direction: あげる, くれる, もらう."""

from __future__ import annotations

from data.primer.constructions.basic import sentence
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.noun_phrases import NounPhrase, pronoun
from data.primer.grammar.sentences import Draft, construction
from data.primer.lexicon import Verb, noun, nouns, verb

GIVING = tuple(
    verb(name, noun(thing))
    for name, thing in (("give", "ring"), ("show", "photo"), ("send", "letter"), ("lend", "book"))
)


def toward(giver: NounPhrase, taker: NounPhrase, action: Verb) -> ja.Predicate:
    """Return the verb towards the speaker's side: くれる for あげる, てくれる with other verbs; otherwise the verb itself."""
    inward = taker.speaker_side and not giver.speaker_side
    if not inward and not (taker.person == 1 and giver.person != 1):
        return action.predicate
    return ja.Predicate("", "くれる", "ichidan") if action.english == "give" else ja.favor(action.predicate)


def _parties(chooser: Chooser) -> tuple[NounPhrase, NounPhrase]:
    """Choose two different people, often including the speaker."""
    draw = chooser.pick(("I", "me", "named", "named", "named"))
    other = chooser.subject(("named",), speaker=False)
    if draw == "I":
        return pronoun("I"), other if other.entry else chooser.person()
    if draw == "me":
        return other, pronoun("I")
    return other, chooser.person(other)


def giving(
    chooser: Chooser, action: Verb, giver: NounPhrase, taker: NounPhrase, mode: Mode, thing: NounPhrase
) -> Clause:
    """Build a ditransitive clause. Example: Ken gave Emi a book, or: Ken gave a book to Emi."""
    direct = marked(thing, "", "を", 1, 7)
    recipient = marked(taker, "", "に", 0, 6) if chooser.chance(0.6) else marked(taker, "to", "に", 2, 6)
    return Clause(verb_head(action, toward(giver, taker, action)), giver, mode, (direct, recipient))


@construction(2.5)
def give(chooser: Chooser) -> Draft:
    """Statement with 'give', 'show', 'send' or 'lend'. Example: Ken gave Emi a book. - ケンはエミに本をあげました。 gave me - くれました."""
    action = chooser.pick(GIVING)
    giver, taker = _parties(chooser)
    thing = chooser.thing(
        chooser.pick(nouns(*action.object)), giver, owned=action.english in ("show", "lend"), counted=0.12
    )
    tense = chooser.pick(("past", "past", "future"))
    clause = giving(chooser, action, giver, taker, Mode(tense, chooser.chance(0.15)), thing)
    if chooser.chance(0.35):
        clause.complements = (*clause.complements, chooser.time(tense))
    return sentence(clause)


@construction(0.8)
def give_question(chooser: Chooser) -> Draft:
    """Question with 'give', 'show', 'send' or 'lend'. Example: Did Ken give Emi a ring? - ケンはエミに指輪をあげましたか。"""
    action = chooser.pick(GIVING)
    giver = chooser.subject(("named",), speaker=False)
    taker = chooser.person(giver)
    thing = chooser.thing(chooser.pick(nouns(*action.object)), giver, owned=False, counted=0.1)
    direct, recipient = marked(thing, "", "を", 1, 7), marked(taker, "", "に", 0, 6)
    return sentence(
        Clause(verb_head(action, toward(giver, taker, action)), giver, Mode("past"), (direct, recipient), question=True)
    )


@construction(1.2)
def receive(chooser: Chooser) -> Draft:
    """Statement with 'receive'. Example: Emi received a letter from Ken. - エミはケンから手紙をもらいました。"""
    action = verb("receive", noun("ring"))
    taker = chooser.subject(("named",))
    giver = chooser.person(taker)
    thing = chooser.thing(chooser.pick(nouns(*action.object)), taker, owned=False, counted=0.12)
    direct, source = marked(thing, "", "を", 0, 7), marked(giver, "from", "から", 1, 6)
    time: tuple[Complement, ...] = (chooser.time("past"),) if chooser.chance(0.35) else ()
    return sentence(Clause(verb_head(action), taker, Mode("past", chooser.chance(0.15)), (direct, source, *time)))
