"""Build sentences of two clauses: reasons, conditions, times, sequences, contrasts, thoughts."""

from __future__ import annotations

from dataclasses import replace

from data.primer import lexicon
from data.primer.constructions.adjectives import described, pointed
from data.primer.constructions.basic import by_people, sentence
from data.primer.constructions.verbs import scene_event
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser, verbs
from data.primer.grammar.clauses import Clause, Complement, Mode, adjective_head, marked, verb_head
from data.primer.grammar.noun_phrases import POSSESSIVES, NounPhrase, common, determiner, pronoun
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Parts, Word, words
from data.primer.lexicon import Noun, Verb, adjective, noun, nouns, suiting, takers, things, verb


def protagonist(chooser: Chooser) -> NounPhrase:
    """Choose a person that 'he' or 'she' can refer to later: a name, a boy, a woman."""
    return chooser.person() if chooser.chance(0.85) else common(chooser.pick(nouns("he", "she")))


def again(phrase: NounPhrase) -> NounPhrase:
    """Build the pronoun for a noun phrase, which Japanese omits."""
    return pronoun(phrase.pronoun, phrase.referent, dropped=True)


def particular(chooser: Chooser, action: Verb, entry: Noun, *, known: bool = False) -> NounPhrase:
    """Build an object without adjective for later pronouns: a bag, the bag, this bag. `known`: definite."""
    if action.english == "go to":
        return chooser.goal(entry)
    if known:
        return common(entry, chooser.pick(("the", "the", "this", "that")) if entry.plural else "the")
    if "instrument" in entry.kinds or action.english == "sit on":
        return common(entry)
    return chooser.thing(entry, owned=False, described=0.0)


def acting(doer: NounPhrase, action: Verb, thing: NounPhrase | None, mode: Mode) -> Clause:
    """Build a clause of a subject, a verb and an optional object."""
    complements = (marked(thing, "", action.particle, 0, 7),) if thing else ()
    return Clause(verb_head(action), doer, mode, complements)


def aside(clause: Clause, adverbial: Parts, *, about: NounPhrase) -> Parts:
    """Return the Japanese main clause with an adverbial clause `about` its subject or its object.

    A shared subject appears once, as the topic of both clauses. An object appears in the adverbial clause only. If the
    adverbial clause omitted the object, it would describe the subject (女の子は…有名だったので).
    """
    topic = (*clause.subject.japanese, Word("は"))
    if about is clause.subject:
        return (*topic, *adverbial, *clause.japanese(topic=None))
    named = tuple(complement for complement in clause.complements if complement.of is about.referent)
    return (*about.japanese, Word("が"), *adverbial, *topic, *clause.japanese(topic=None, skip=named))


# Reasons and conditions


def reason(why: Clause, link: Link, *, comma: bool = True) -> Parts:
    """Return the reason with …ので、; the caller adds the subject."""
    stop = (Word("、"),) if comma else ()
    return (*why.japanese(ja.before_node, topic=None), Word("ので", link), *stop)


def caused(
    chooser: Chooser, tense: str, *, negated: bool = True
) -> tuple[Clause, NounPhrase | None, Clause, NounPhrase]:
    """Build an action or its negation, its object, and the quality of subject or object that explains the action."""
    cause = chooser.pick([cause for cause in lexicon.REASONS if negated or not cause.negative])
    doer, thing = protagonist(chooser), None
    if cause.object is None:
        action = verb(cause.verb)
    else:
        options = takers(cause.verb, cause.object)
        if not cause.of_subject:
            options = tuple(pair for pair in options if suiting(pair[1], cause.adjectives))
        action, entry = chooser.pick(options)
        thing = particular(chooser, action, entry, known=not cause.of_subject)
    main = acting(doer, action, thing, Mode(tense, cause.negative))
    if cause.of_subject or thing is None:
        about, attribute = doer, adjective(chooser.pick(cause.adjectives))
    else:
        assert isinstance(thing.entry, Noun)
        about, attribute = thing, chooser.pick(suiting(thing.entry, cause.adjectives))
    if attribute.english == "happy":
        # 喜んでいる describes the visible emotion of others; a reason needs the inner state.
        attribute = replace(attribute, writing="うれしい", kind="i")
    why = Clause(adjective_head(attribute), again(about), Mode("past" if tense == "past" else "present"))
    return main, thing, why, about


def explained(main: Clause, why: Clause, about: NounPhrase, *inner: Clause) -> Draft:
    """Join a main clause and its reason, the quality of `about`. Example: Ken drank water because he was thirsty."""
    link = Link()
    english = (*main.english(), Word("because", link), *why.english())
    return Draft(english, aside(main, reason(why, link), about=about), (main, why, *inner))


@construction(3.0)
def because(chooser: Chooser) -> Draft:
    """Main clause and reason. Example: Ken drank water because he was thirsty. - ケンはのどがかわいていたので、水を飲みました。

    In Japanese the reason precedes the predicate: it follows the topic if it describes the subject, and otherwise
    precedes the topic.
    """
    main, _, why, about = caused(chooser, "past")
    return explained(main, why, about)


def following(main: Clause, thing: NounPhrase | None, about: NounPhrase) -> Clause:
    """Return the main clause for a sentence that begins with the quality of `about`, which it mentions by pronoun."""
    if about is main.subject:
        return Clause(main.head, again(about), main.mode, main.complements)
    assert thing is not None
    assert main.head.verb is not None
    return acting(main.subject, main.head.verb, again(thing), main.mode)


@construction(1.5)
def so(chooser: Chooser) -> Draft:
    """Reason and consequence. Example: The bag was cheap, so Emi bought it. - かばんが安かったので、エミは買いました。"""
    main, thing, why, about = caused(chooser, "past")
    first, second = Clause(why.head, about, why.mode), following(main, thing, about)
    shared, link = about is main.subject, Link()
    english = (*first.english(), Word(","), Word("so", link), *second.english())
    start = first.japanese(ja.before_node, topic="は" if shared else "が")
    japanese = (*start, Word("ので", link), Word("、"), *second.japanese(topic=None if shared else "は"))
    return Draft(english, japanese, (first, main))


def conditional(first: Clause, second: Clause, topic: str) -> tuple[Parts, Parts]:
    """Join a condition and its consequence. Example: If the bag is cheap, Emi will buy it."""
    link = Link()
    english = (Word("if", link), *first.english(), Word(","), *second.english())
    *condition, ending = first.japanese(ja.conditional, topic=topic)
    assert isinstance(ending, Word)
    return english, (*condition, Word(ending.text, link), Word("、"), *second.japanese())


@construction(1.5)
def condition(chooser: Chooser) -> Draft:
    """Condition. Example: If the bag is cheap, Emi will buy it. - かばんが安かったら、エミは買います。"""
    main, thing, why, about = caused(chooser, "future", negated=False)
    first = Clause(why.head, about, Mode("present"))
    second = following(main, thing, about)
    return Draft(*conditional(first, second, "は" if about is main.subject else "が"), (first, main))


# Temporal order


@construction(1.2)
def when(chooser: Chooser) -> Draft:
    """Event during another. Example: When Ken came to the park, Emi was playing tennis. - ケンが公園へ来た時、エミはテニスをしていました。"""
    arrival = verb(chooser.pick(("come to", "arrive at", "call", "go to", "open", "close")), None)
    first = chooser.event(arrival, Mode("past"), chooser.person(), timed=0.0, placed=0.0, accompanied=0.0)
    going_on = by_people(verbs(without=("punctual", "stative")))
    action = chooser.pick([action for action in going_on if action.english not in ("grow", "visit")])
    mode = Mode("past", modality="progressive")
    second = chooser.event(action, mode, chooser.person(first.subject), timed=0.0, placed=0.0, accompanied=0.0)
    link = Link()
    english = (Word("when", link), *first.english(), Word(","), *second.english())
    japanese = (*first.japanese(ja.ta, topic="が"), Word("時", link), Word("、"), *second.japanese())
    return Draft(english, japanese, (first, second))


FIRSTS = frozenset(sequel.first for sequel in lexicon.SEQUELS)
PREPARING = frozenset(("wash", "cut", "fix"))
"""Optional first actions, so that 'washed it before he ate it' is informative."""


def _sequel(
    chooser: Chooser, first_mode: Mode, second_mode: Mode, *, later_first: bool = False, firsts: frozenset[str] = FIRSTS
) -> tuple[Clause, Clause]:
    """Build two clauses about actions on the same object; the second clause of the sentence has pronouns."""
    sequel = chooser.pick([sequel for sequel in lexicon.SEQUELS if sequel.second != "wear" and sequel.first in firsts])
    entry = chooser.pick(things(sequel))
    doer = protagonist(chooser)
    action, other = verb(sequel.first, entry), verb(sequel.second, entry)
    thing = particular(chooser, action, entry, known=later_first)
    if later_first:
        return acting(again(doer), action, again(thing), first_mode), acting(doer, other, thing, second_mode)
    return acting(doer, action, thing, first_mode), acting(again(doer), other, again(thing), second_mode)


@construction(1.2)
def before(chooser: Chooser) -> Draft:
    """Two actions with 'before'. Example: Emi washed the apple before she ate it. - エミは食べる前に、りんごを洗いました。"""
    first, second = _sequel(chooser, Mode("past"), Mode("past"), firsts=PREPARING)
    link = Link()
    later = (*second.japanese(ja.dictionary, topic=None), Word("前に", link), Word("、"))
    english = (*first.english(), Word("before", link), *second.english())
    return Draft(english, aside(first, later, about=first.subject), (first, second))


@construction(1.2)
def after(chooser: Chooser) -> Draft:
    """Two actions with 'after'. Example: Emi ate the apple after she washed it. - エミはりんごを洗った後で、食べました。"""
    first, second = _sequel(chooser, Mode("past"), Mode("past"), later_first=True)
    link = Link()
    apple = tuple(part for complement in second.complements for part in complement.japanese)
    earlier = (*second.subject.japanese, Word("は"), *apple, *first.ended(ja.ta), Word("後で", link), Word("、"))
    english = (*second.english(), Word("after", link), *first.english())
    return Draft(english, (*earlier, *second.ended()), (second, first))


@construction(1.2)
def sequence(chooser: Chooser) -> Draft:
    """Two successive actions. Example: Ken went to the bakery and bought bread. - ケンはパン屋へ行って、パンを買いました。"""
    visits = [scene for scene in lexicon.SCENES if "visit" in noun(scene.place).kinds]
    scene = chooser.pick([scene for scene in visits if scene.verb not in ("work", "teach")])
    tense = chooser.pick(("past", "past", "future"))
    subject = chooser.subject(("person", "named"))
    goal = marked(chooser.goal(noun(scene.place)), "", "へ", 0, 7)
    time = (chooser.time(tense, brief=True),) if chooser.chance(0.3) else ()
    going = Clause(verb_head(verb("go to")), subject, Mode(tense), (goal,))
    doing = scene_event(chooser, scene.verb, scene.object, subject, Mode(tense))
    doing.complements = (*doing.complements, *time)
    shared = doing.english(subject=False)
    english = (*going.english(), Word("and", Link()), *(shared[1:] if tense == "future" else shared))
    went = (*(time[0].japanese if time else ()), *going.japanese(ja.te, topic=None), Word("、"))
    japanese = (*subject.japanese, Word("は"), *went, *doing.japanese(topic=None, skip=time))
    return Draft(english, japanese, (going, doing))


# Contrast and thought

OPPOSITES = [{"cheap", "expensive"}, {"new", "old"}, {"light", "heavy"}, {"fast", "slow"}, {"easy", "difficult"}]
OPPOSITES += [{"interesting", "boring"}, {"quiet", "noisy"}, {"sweet", "sour"}, {"sweet", "acidic"}]


def contrast(first: Clause, second: Clause) -> Draft:
    """Join two clauses by 'but'. Example: Emi bought a book, but she did not read it."""
    link = Link()
    english = (*first.english(), Word(","), Word("but", link), *second.english())
    return Draft(english, (*first.japanese(), Word("が", link), Word("、"), *second.japanese()), (first, second))


@construction(1.5)
def but(chooser: Chooser) -> Draft:
    """Contrast of actions or qualities. Example: Emi bought a book, but she did not read it. - エミは本を買いましたが、読みませんでした。"""
    if chooser.chance(0.6):
        return contrast(*_sequel(chooser, Mode("past"), Mode("past", True)))
    scale = chooser.pick([scale for scale in lexicon.SCALES if scale.kind not in ("study", "sport")])
    thing = chooser.pick(nouns(scale.kind))
    good = [attribute for attribute in suiting(thing, scale.good) if attribute.english != "new"]
    bad = suiting(thing, scale.bad)
    if not good or not bad or thing.plural is None:
        return but(chooser)
    attribute, other = chooser.pick(good), chooser.pick(bad)
    if {attribute.english, other.english} in OPPOSITES:
        return but(chooser)
    if chooser.chance(0.5):
        attribute, other = other, attribute
    subject = chooser.known(thing, described=0.0)
    mode = Mode(chooser.pick(("present", "past")))
    return contrast(
        Clause(adjective_head(attribute), subject, mode), Clause(adjective_head(other), again(subject), mode)
    )


@construction(1.2)
def search_in_vain(chooser: Chooser) -> Draft:
    """Search without success. Example: Leo looked for the key, but he could not find it. - レオは鍵を探しましたが、見つけられませんでした。"""
    looking, finding = verb("look for", noun("key")), verb("find", noun("key"))
    entry = chooser.pick(nouns(*looking.object))
    doer = protagonist(chooser)
    thing = chooser.known(entry, doer) if chooser.chance(0.7) else common(entry, determiner(POSSESSIVES[doer.pronoun]))
    looked = acting(doer, looking, thing, Mode("past"))
    return contrast(looked, acting(again(doer), finding, again(thing), Mode("past", True, "can")))


@construction(1.5)
def thought(chooser: Chooser) -> Draft:
    """Statement about a thought. Example: Emi thinks that the movie is interesting. - エミは映画が面白いと思っています。"""
    subject = chooser.subject(("person", "named"))
    about, attribute = described(chooser, asked=True)
    while (
        about.entry is None
        or about.entry is subject.entry
        or next(words(about.english)).text == "that"
        or "が" in attribute.writing
        or attribute.english == "good"  # Xがいいと思う would be a choice
    ):
        about, attribute = described(chooser, asked=True)
    tense = "present" if pointed(about) else chooser.pick(("present", "present", "past"))
    inner = Clause(adjective_head(attribute), about, Mode(tense, chooser.chance(0.2)))
    which = "think" if subject.person == 1 else chooser.pick(("think", "think", "say"))
    quote = Link()
    japanese = (*inner.japanese(ja.plain, topic="が"), Word("と", quote))
    return reported(subject, which, Complement((Word("that", quote), *inner.english()), japanese, 0, 7), inner)


def reported(subject: NounPhrase, which: str, content: Complement, *inner: Clause) -> Draft:
    """Build a sentence about what somebody thinks or says; others' thoughts are progressive: 思っている, 言っている."""
    action = verb(which)
    speakers_own = which == "think" and subject.person == 1
    head = verb_head(action, action.predicate if speakers_own else ja.progressive(action.predicate))
    return sentence(Clause(head, subject, Mode("present"), (content,)), *inner)
