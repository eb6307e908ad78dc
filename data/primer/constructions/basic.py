"""Build statements about one event, place or quantity."""

from __future__ import annotations

from collections.abc import Sequence

from data.primer.grammar import noun_phrases
from data.primer.grammar.choice import Chooser, verbs, when
from data.primer.grammar.clauses import Clause, Complement, Head, Mode, marked, noun_head, verb_head
from data.primer.grammar.english import be
from data.primer.grammar.japanese import Predicate, finite
from data.primer.grammar.noun_phrases import NounPhrase, common, numbered
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Parts, Word
from data.primer.lexicon import CITIES, POSITIONS, TIMES, Noun, Position, Verb, nouns, verb


def sentence(clause: Clause, *inner: Clause, pairs: tuple[tuple[str, str], ...] = ()) -> Draft:
    """Wrap a main clause as a statement or a question; `inner` are the clauses inside it."""
    return Draft(clause.english(), clause.japanese(), (clause, *inner), "?" if clause.question else ".", pairs)


def usual(tense: str) -> tuple[Verb, ...]:
    """Return the verbs that are usual in the tense."""
    return verbs(without={"past": (), "present": ("rare",), "future": ("accident", "stative")}[tense])


@construction(3.0)
def past_event(chooser: Chooser) -> Draft:
    """Statement about a past event. Example: Ken bought three apples yesterday. - ケンは昨日りんごを三個買いました。"""
    return sentence(chooser.event(chooser.pick(usual("past")), Mode("past")))


@construction(1.5)
def habit(chooser: Chooser) -> Draft:
    """Statement about a habit. Example: Emi often reads novels. - エミはよく小説を読みます。"""
    return sentence(chooser.event(chooser.pick(usual("present")), Mode("present")))


PLANNED = [action for action in usual("future") if action.english not in ("see", "touch", "throw")]
"""Verbs without the actions that nobody announces for tomorrow."""
CASUAL = ("I", "he", "she", "we", "they")
"""Pronouns that can have a contraction."""


def by_people(options: Sequence[Verb]) -> list[Verb]:
    """Return the verbs that can have a person as their subject."""
    return [action for action in options if "person" in action.subject]


@construction(1.5)
def future_event(chooser: Chooser) -> Draft:
    """Statement about a future event. Example: We will go to the zoo tomorrow. - 私たちは明日動物園へ行きます。"""
    return sentence(chooser.event(chooser.pick(PLANNED), Mode("future"), timed=1.0))


@construction(1.5)
def ongoing(chooser: Chooser) -> Draft:
    """Statement about an ongoing event. Example: The boy is running in the park. - 男の子は公園で走っています。"""
    action = chooser.pick(verbs(without=("punctual", "stative")))
    return sentence(chooser.event(action, Mode(chooser.pick(("present", "past")), modality="progressive"), timed=0.0))


@construction(2.0)
def negation(chooser: Chooser) -> Draft:
    """Negated statement about an event. Example: Taro did not open the window. - タロウは窓を開けませんでした。"""
    tense = chooser.pick(("past", "past", "present", "future"))
    return sentence(chooser.event(chooser.pick(usual(tense)), Mode(tense, True), counted=0.0))


@construction(0.8)
def casual_plan(chooser: Chooser) -> Draft:
    """Plan in casual style (plain Japanese). Example: She'll go to the zoo tomorrow. - 彼女は明日動物園へ行く。"""
    action = chooser.pick(by_people(PLANNED))
    subject = noun_phrases.pronoun(chooser.pick(CASUAL))
    return sentence(chooser.event(action, Mode("future", contracted=True), subject, timed=1.0))


@construction(0.8)
def casual_ongoing(chooser: Chooser) -> Draft:
    """Statement about an ongoing event in casual style. Example: I'm reading a book. - 私は本を読んでいる。"""
    action = chooser.pick(by_people(verbs(without=("punctual", "stative"))))
    subject = noun_phrases.pronoun(chooser.pick(CASUAL))
    return sentence(chooser.event(action, Mode("present", modality="progressive", contracted=True), subject, timed=0.0))


@construction(1.2)
def casual_negation(chooser: Chooser) -> Draft:
    """Negated statement in casual style. Example: Taro didn't open the window. - タロウは窓を開けなかった。"""
    tense = chooser.pick(("past", "present"))
    return sentence(chooser.event(chooser.pick(usual(tense)), Mode(tense, True, contracted=True), counted=0.0))


@construction(1.0)
def too(chooser: Chooser) -> Draft:
    """Statement with 'also'. Example: Mika also drank tea. - ミカもお茶を飲みました。"""
    clause = chooser.event(chooser.pick(verbs()), Mode("past"), accompanied=0.0)
    link = Link()
    clause.complements = (Complement((Word("also", link),), (), -1, 0), *clause.complements)
    japanese = (*clause.subject.japanese, Word("も", link), *clause.japanese(topic=None))
    return Draft(clause.english(), japanese, (clause,))


@construction(1.0)
def journey(chooser: Chooser) -> Draft:
    """Statement about a journey. Example: Leo walked from the station to the park. - レオは駅から公園まで歩きました。"""
    action = verb(chooser.pick(("walk", "run")))
    start, goal = chooser.pair([place for place in nouns("visit") if not place.kinds & {"waters", "climb"}])
    complements = [marked(chooser.goal(start), "from", "から", 1, 5), marked(chooser.goal(goal), "to", "まで", 2, 7)]
    if chooser.chance(0.4):
        complements.append(chooser.time("past"))
    subject = chooser.subject(action.subject)
    return sentence(Clause(verb_head(action), subject, Mode("past", chooser.chance(0.15)), tuple(complements)))


def clock(hour: int) -> NounPhrase:
    """Build an hour. Example: seven - 七時."""
    return NounPhrase(*numbered(hour, "時"))


@construction(0.8)
def hours(chooser: Chooser) -> Draft:
    """Statement about an activity between two hours. Example: Ken worked from nine to five. - ケンは九時から五時まで働きました。"""
    action = chooser.pick(
        [action for action in verbs(without=("punctual", "rare", "stative")) if action.english in LASTING]
    )
    start = 1 + int(chooser.chance(0.5)) + int(chooser.chance(0.5)) * 6
    end = start + 1 + int(chooser.chance(0.5))
    clause = chooser.event(action, Mode("past"), timed=0.0, placed=0.0, counted=0.0)
    span = (marked(clock(start), "from", "から", 5, 1), marked(clock(end), "to", "まで", 6, 1))
    clause.complements = (*clause.complements, *span)
    return sentence(clause)


LASTING = ("work", "study", "sleep", "practice", "play", "rest", "walk", "swim", "listen to")
DAYS = ("yesterday", "this morning", "last night")


@construction(0.8)
def at_hour(chooser: Chooser) -> Draft:
    """Statement about an event at an hour. Example: Anna got up at seven this morning. - アンナは今朝七時に起きました。"""
    action = verb(chooser.pick(("get up", "come to", "go to", "arrive at", "eat", "call", "meet", "close", "open")))
    clause = chooser.event(action, Mode("past"), timed=0.0, placed=0.0, counted=0.0)
    while any(c.entry in CITIES for c in clause.complements):  # nobody came to Japan at six
        clause = chooser.event(action, Mode("past"), timed=0.0, placed=0.0, counted=0.0)
    early = 5
    if chooser.chance(0.5):
        days = DAYS[:2] if action.english == "get up" else DAYS
        day = chooser.pick([time for time in TIMES if time.english in days])
        clause.complements = (*clause.complements, when(day))
        early = 7 if day.english == "last night" else 5
    hour = marked(clock(early + int(chooser.chance(0.5)) + 2 * int(chooser.chance(0.5))), "at", "に", 6, 1)
    clause.complements = (*clause.complements, hour)
    return sentence(clause)


# Location


def beside(position: Position, landmark: NounPhrase) -> tuple[Parts, Parts]:
    """Build a position relative to a landmark. Example: under the table - テーブルの下に."""
    link = Link()
    japanese = (*landmark.japanese, Word(position.writing, link), Word("に", link))
    return (Word(position.english, link), *landmark.english), japanese


def _setting(chooser: Chooser) -> tuple[Position, Noun, Noun]:
    position = chooser.pick(POSITIONS)
    landmark, thing = chooser.pick(nouns(*position.landmarks)), chooser.pick(nouns(*position.things))
    if landmark is thing or thing.plural is None:
        return _setting(chooser)
    return position, landmark, thing


def being(animate: bool) -> Predicate:
    """Return 'be' for a location: いる for people and animals, ある for things."""
    return Predicate("", "いる", "ichidan") if animate else Predicate("", "ある", "aru")


@construction(2.0)
def existence(chooser: Chooser) -> Draft:
    """Statement or question about what is at a place. Example: There are two cats under the table. - テーブルの下に猫が二匹います。"""
    position, landmark, thing = _setting(chooser)
    where, place = beside(position, common(landmark))
    negative = chooser.chance(0.15)
    number = 2 + int(chooser.chance(0.6)) + int(chooser.chance(0.4)) if thing.counter and chooser.chance(0.55) else None
    if negative:
        phrase = common(thing, noun_phrases.Determiner(()), plural=True)
    else:
        phrase = common(thing, "" if number else "a", *chooser.describe(thing, 0.25), number=number)
    past, asked = chooser.chance(0.3), not negative and chooser.chance(0.15)
    link = Link()
    verb_form = Word(be(3, phrase.plural, past), link)
    there = (verb_form, Word("there")) if asked else (Word("there"), verb_form)
    no = (Word("no", link),) if negative else ()
    inflected = finite(being(thing.animate), past=past, negative=negative)
    topic = Word("は" if negative else "が")
    japanese = (*place, *phrase.japanese, topic, *phrase.quantity, Word(inflected.text, link))
    english = (*there, *no, *phrase.english, *where)
    return Draft(english, japanese, (), "?" if asked else ".", ((position.english, thing.english),))


@construction(1.2)
def location(chooser: Chooser) -> Draft:
    """Statement or question about a location. Example: The cat is behind the sofa. - 猫はソファーの後ろにいます。"""
    position, landmark, thing = _setting(chooser)
    english, japanese = beside(position, common(landmark))
    subject = chooser.known(thing)
    tense, asked = chooser.pick(("present", "past")), chooser.chance(0.2)
    head = Head(being(thing.animate), None, english, japanese, None, position.english)
    return sentence(Clause(head, subject, Mode(tense, not asked and chooser.chance(0.2)), question=asked))


# Identity and possession


@construction(0.8)
def identity(chooser: Chooser) -> Draft:
    """Statement about a person's occupation. Example: My father is a doctor. - 父は医者です。"""
    subject = chooser.subject(("named",))
    job = common(chooser.pick(nouns("job", "learner")), "" if subject.plural else "a", plural=subject.plural)
    tense = chooser.pick(("present", "present", "past"))
    contracted = chooser.chance(0.4) and subject.person == 3
    mode = Mode(tense, contracted or chooser.chance(0.25), contracted=contracted)
    return sentence(Clause(noun_head(job), subject, mode))


@construction(0.8)
def having(chooser: Chooser) -> Draft:
    """Statement about a possession. Example: Jun has two dogs. - ジュンは犬を二匹飼っています。"""
    barred = {"top", "hat", "foot", "plant", "furniture", "dishes"}
    noun = chooser.pick([noun for noun in nouns("pet", "goods") if noun.plural and not noun.kinds & barred])
    action = verb("have", noun)
    subject = chooser.subject(("named",))
    mode = Mode(chooser.pick(("present", "past")), chooser.chance(0.2))
    phrase = chooser.thing(noun, owned=False, counted=0.0 if mode.negative else 0.5)
    if phrase.quantity == () and not mode.negative:
        phrase = common(noun, "a", *chooser.describe(noun, 0.4))
    elif mode.negative:
        phrase = common(noun, "a")
    return sentence(Clause(verb_head(action), subject, mode, (marked(phrase, "", action.particle, 0, 7),)))
