"""Build nested clauses, such as a relative clause within a comparison within a causal clause."""

from __future__ import annotations

from data.primer.constructions.adjectives import comparing, preferring, with_reason
from data.primer.constructions.basic import sentence
from data.primer.constructions.combined import acting, again, caused, conditional, protagonist, reason, reported
from data.primer.constructions.relative import made_by, made_thing, told_of
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import Clause, Complement, Mode, adjective_head, marked, verb_head
from data.primer.grammar.noun_phrases import pronoun
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Word
from data.primer.lexicon import Adjective, Noun, Verb, causes, suiting

GOOD = ("sweet", "delicious", "interesting", "light", "soft", "cute", "useful", "cheap", "easy")
BAD = ("expensive", "difficult", "acidic", "bitter", "boring")


def _judged(chooser: Chooser, names: tuple[str, ...]) -> tuple[Verb, Noun, Adjective]:
    """Choose how a thing was obtained, the thing, and one of the named qualities that suits it."""
    action, _, entry = made_thing(chooser)
    options = [attribute for attribute in suiting(entry, names) if told_of(action, attribute)]
    return (action, entry, chooser.pick(options)) if options else _judged(chooser, names)


def _inviting(action: Verb, other: Verb, entry: Noun) -> list[Adjective]:
    """Return the qualities that are a reason for the second action, e.g. of a fresh apple that is bought and eaten."""
    reasons = [
        attribute
        for cause in causes(other, entry)
        if not cause.negative
        for attribute in suiting(entry, cause.adjectives)
    ]
    return [attribute for attribute in reasons if told_of(action, attribute)]


@construction(1.2)
def because_of_compared_relatives(chooser: Chooser) -> Draft:
    """Reason that compares two relative clauses. Example: Emi ate the cake that Ken made because it was sweeter than
    the cake that Anna made. - アンナが作ったケーキより甘かったので、…。

    The standard of comparison comes first and identifies the kind of thing, so the main clause names the thing.
    """
    action, other, entry = made_thing(chooser)
    options = [attribute for attribute in _inviting(action, other, entry) if "nocompare" not in attribute.features]
    if not options:
        return because_of_compared_relatives(chooser)
    doer = protagonist(chooser)
    thing, inner = made_by(chooser, action, entry, doer)
    standard, second = made_by(chooser, action, entry, doer, inner.subject)
    main = acting(doer, other, thing, Mode("past"))
    why = Clause(comparing(chooser.pick(options), standard), again(thing), Mode("past"))
    link = Link()
    english = (*main.english(), Word("because", link), *why.english())
    return Draft(english, (*reason(why, link), *main.japanese()), (main, why, inner, second))


@construction(1.2)
def preferring_relatives_because(chooser: Chooser) -> Draft:
    """Preference between two relative clauses, with its reason. Example: Emi prefers the cake that Ken made to the cake
    that Anna made because it is sweeter (or: because it is too expensive)."""
    how = chooser.pick(("more", "less", "too"))
    action, entry, attribute = _judged(chooser, GOOD if how == "more" else BAD)
    subject = protagonist(chooser)
    better, inner = made_by(chooser, action, entry, subject)
    worse, other = made_by(chooser, action, entry, subject, inner.subject)
    main = preferring(chooser, subject, better, worse, Mode(chooser.pick(("present", "past"))))
    english, japanese, why = with_reason(main, better, worse, attribute, how)
    return Draft(english, japanese, (main, why, inner, other), pairs=(("prefer", entry.english),))


@construction(1.0)
def condition_of_relative(chooser: Chooser) -> Draft:
    """Condition about a relative clause. Example: If the book that Ken bought is interesting, Emi will read it. -
    ケンが買った本が面白かったら、エミは読みます。"""
    action, other, entry = made_thing(chooser)
    options = _inviting(action, other, entry)
    if not options:
        return condition_of_relative(chooser)
    doer = protagonist(chooser)
    thing, inner = made_by(chooser, action, entry, doer)
    condition = Clause(adjective_head(chooser.pick(options)), thing, Mode("present"))
    main = acting(doer, other, again(thing), Mode("future"))
    return Draft(*conditional(condition, main, "が"), (condition, main, inner))


@construction(0.8)
def question_about_relative(chooser: Chooser) -> Draft:
    """Question about a relative clause. Example: Did you read the book that Ken bought? - ケンが買った本を読みましたか。"""
    action, other, entry = made_thing(chooser)
    subject = pronoun("you") if chooser.chance(0.6) else chooser.person()
    thing, inner = made_by(chooser, action, entry, subject)
    read = marked(thing, "", other.particle, 0, 7)
    return sentence(Clause(verb_head(other), subject, Mode("past"), (read,), question=True), inner)


@construction(1.2)
def reported_reason(chooser: Chooser) -> Draft:
    """Reported speech with a reason. Example: Ken says that he slept because he was tired. - ケンは疲れていたので寝たと言っています。"""
    main, thing, why, about = caused(chooser, "past")
    speaker = main.subject
    reported_clause = Clause(main.head, again(speaker), main.mode, main.complements)
    quote, link = Link(), Link()
    named = main.complements if about is thing else ()
    subject = (*about.japanese, Word("が")) if named else ()
    action = reported_clause.japanese(ja.plain, topic=None, skip=named)
    english = (Word("that", quote), *reported_clause.english(), Word("because", link), *why.english())
    japanese = (*subject, *reason(why, link, comma=False), *action, Word("と", quote))
    return reported(speaker, "say", Complement(english, japanese, 0, 7), main, why)
