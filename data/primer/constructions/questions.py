"""Build yes-no questions, questions with a question word, and questions with an answer."""

from __future__ import annotations

from data.primer.constructions.basic import by_people, sentence, usual
from data.primer.grammar.choice import Chooser, verbs
from data.primer.grammar.clauses import Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.counters import question
from data.primer.grammar.noun_phrases import NounPhrase, asked, common, pronoun
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Word, text
from data.primer.lexicon import SCENES, Verb, nouns, verb, without_preposition


def _asked_event(chooser: Chooser, subject: NounPhrase | None = None) -> Draft:
    tense = chooser.pick(("past", "past", "present", "future"))
    action = chooser.pick(by_people(usual(tense)) if subject else usual(tense))
    return sentence(chooser.event(action, Mode(tense), subject, question=True, speaker=False, accompanied=0.1))


@construction(2.0)
def yes_no_question(chooser: Chooser) -> Draft:
    """Yes-no question. Example: Did Emi read the letter? - エミは手紙を読みましたか。"""
    return _asked_event(chooser)


@construction(1.0)
def question_to_you(chooser: Chooser) -> Draft:
    """Question with 'you', which Japanese omits. Example: Did you buy the tickets yesterday? - 昨日切符を買いましたか。"""
    return _asked_event(chooser, pronoun("you"))


def _asked_person(chooser: Chooser, action: Verb, you: float = 0.3) -> NounPhrase:
    return pronoun("you") if chooser.chance(you) else chooser.subject(action.subject, speaker=False)


def _wh_question(clause: Clause, word: Complement) -> Draft:
    """Build a question whose English side begins with the complement `word`."""
    return Draft((*word.english, *clause.english(gap=word)), clause.japanese(), (clause,), "?")


@construction(1.0)
def what_question(chooser: Chooser) -> Draft:
    """Question about the object. Example: What did Ken eat in the park? - ケンは公園で何を食べましたか。"""
    tense = chooser.pick(("past", "past", "future"))
    candidates = verbs(without=("accident", "stative") if tense == "future" else ("stative",), transitive=True)
    options = [
        action
        for action in candidates
        if action.english in WHAT and "soup" not in action.object[:1] and action.particle == "を"
    ]
    action = chooser.pick(options)
    clause = chooser.event(action, Mode(tense), _asked_person(chooser, action), question=True, timed=0.6)
    what = marked(asked("what", "何"), "", action.particle, 0, 7)
    clause.complements = (what, *clause.complements[1:])
    return _wh_question(clause, what)


WHAT = frozenset("eat drink make bake order cut buy sell choose read write draw study practice forget use".split())
WHAT |= {"find", "look for", "lose", "break", "fix", "borrow", "carry", "wash", "open"}


@construction(1.0)
def who_question(chooser: Chooser) -> Draft:
    """Question about the subject. Example: Who broke the clock? - 誰が時計を壊しましたか。"""
    action = chooser.pick(by_people(verbs(without=("stative",))))
    clause = chooser.event(action, Mode("past"), asked("who", "誰"), timed=0.4, accompanied=0.0)
    return Draft(clause.english(), clause.japanese(topic="が"), (clause,), "?")


@construction(0.8)
def where_question(chooser: Chooser) -> Draft:
    """Question about the place. Example: Where did Ken play tennis? - ケンはどこでテニスをしましたか。"""
    action = chooser.pick([action for action in verbs() if action.english in SOMEWHERE])
    clause = chooser.event(action, Mode("past"), _asked_person(chooser, action), question=True, placed=0.0)
    link = Link()
    where = Complement((Word("where", link),), (Word("どこ", link), Word("で")), 9, 2)
    clause.complements = (*clause.complements, where)
    return _wh_question(clause, where)


SOMEWHERE = frozenset(scene.verb for scene in SCENES) - {"run", "walk", "plant"}
"""Verbs whose place takes で; running takes を for the park, planting に for the garden."""


@construction(0.5)
def where_to(chooser: Chooser) -> Draft:
    """Question about the destination. Example: Where did Emi go last week? - エミは先週どこへ行きましたか。"""
    go = verb("go to")
    subject = _asked_person(chooser, go, 0.2)
    tense = chooser.pick(("past", "future"))
    link = Link()
    where = Complement((Word("where", link),), (Word("どこ", link), Word("へ")), 0, 7)
    rest = [chooser.time(tense)]
    rest += [chooser.companion(subject)] if chooser.chance(0.3) else []
    rest += [chooser.means()] if chooser.chance(0.1) else []
    clause = Clause(verb_head(without_preposition(go)), subject, Mode(tense), (where, *rest), True)
    return _wh_question(clause, where)


@construction(0.8)
def when_question(chooser: Chooser) -> Draft:
    """Question about the time. Example: When did Ken buy the camera? - ケンはいつカメラを買いましたか。"""
    action = chooser.pick(verbs(without=("stative",)))
    clause = chooser.event(action, Mode("past"), _asked_person(chooser, action), question=True, timed=0.0, placed=0.1)
    link = Link()
    time = Complement((Word("when", link),), (Word("いつ", link),), 9, 1)
    clause.complements = (*clause.complements, time)
    return _wh_question(clause, time)


@construction(1.0)
def how_many(chooser: Chooser) -> Draft:
    """Question about a number. Example: How many oranges did Hana buy? - ハナはオレンジを何個買いましたか。"""
    name = chooser.pick("buy eat make read cut bake draw find wash choose sell carry".split())
    action = next(v for v in verbs(transitive=True) if v.english == name)
    noun = chooser.pick([noun for noun in nouns(*action.object) if noun.counter and noun.plural])
    subject = _asked_person(chooser, action, 0.25)
    link = Link()
    counted = common(noun, "", plural=True)
    assert noun.counter is not None
    quantity = (Word(question(noun.counter), link),)
    phrase = NounPhrase((Word("how many", link), *counted.english), counted.japanese, noun, quantity=quantity)
    number = marked(phrase, "", action.particle, 0, 7)
    rest = [chooser.time("past")] if chooser.chance(0.5) else []
    clause = Clause(verb_head(action), subject, Mode("past"), (number, *rest), True)
    return _wh_question(clause, number)


@construction(0.8)
def question_and_answer(chooser: Chooser) -> Draft:
    """Yes-no question with its answer. Example: Did Emi eat the cake? Yes, she did. - エミはケーキを食べましたか。はい、食べました。"""
    subject = chooser.person()
    action = chooser.pick(by_people(verbs(without=("stative",))))
    clause = chooser.event(action, Mode("past"), subject, question=True, accompanied=0.0)
    positive = chooser.chance(0.5)
    answer = Clause(verb_head(action), subject, Mode("past", not positive))
    stop, yes, did = Link(), Link(), Link()
    answered = (Word("Yes" if positive else "No", yes), Word(","), *pronoun(subject.pronoun).english)
    english = (*clause.english(), Word("?", stop), *answered, Word("did" if positive else "did not", did))
    asked_part = (*clause.japanese(), Word("か", stop), Word("。", stop))
    reply = (Word("はい" if positive else "いいえ", yes), Word("、"), Word(text(answer.ended()), did))
    return Draft(english, (*asked_part, *reply), (clause,))
