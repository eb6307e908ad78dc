"""Build sentences with modality: wish, ability, permission, duty, request, experience, liking."""

from __future__ import annotations

from data.primer.constructions.basic import statement
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser, verbs
from data.primer.grammar.clauses import NONFINITE, Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.noun_phrases import NounPhrase, pronoun
from data.primer.grammar.sense import CREATING, TRADING
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Word
from data.primer.lexicon import SCENES, Verb, noun, nouns, takers, verb

AT_WILL = ("accident", "stative")
UNWISHED = frozenset(
    ("hide", "chase", "look for", "wait for", "carry", "pick up", "close", "open", "return", "sell", "come to")
)
"""Everyday actions that are neither a wish nor a life experience."""
HARMLESS = frozenset(("look for", "help", "wait for", "rest", "visit", "study", "return", "clean"))
"""Actions that nobody forbids."""
MISCHIEF = frozenset(("hide", "chase", "touch", "catch", "see"))
"""Actions that are not a duty."""
COMMON = UNWISHED | {
    *(
        "come to",
        "meet",
        "throw",
        "listen to",
        "watch",
        "eat",
        "drink",
        "cut",
        "order",
        "wash",
        "choose",
        "use",
        "call",
        "sit on",
        "do",
        "practice",
        "study",
    ),
    *("sleep", "rest", "walk", "run", "work", "hide", "play", "get up", "sing", "clean", "wear"),
}
"""Actions that everybody has done and that are no experience: not 'Ken has never slept'. For food see `experience`."""


def _person(chooser: Chooser, you: float = 0.0) -> NounPhrase:
    return pronoun("you") if chooser.chance(you) else chooser.subject(("person", "named"))


def _human(*without: str) -> list[Verb]:
    return [one for one in verbs(without=without) if "person" in one.subject]


@construction(2.0)
def wish(chooser: Chooser) -> Draft:
    """Wish for an action. Example: I want to read a novel. - 私は小説を読みたいです。 Ken wants to … - ケンは…たがっています。"""
    subject = chooser.subject(("person", "named"))
    if chooser.chance(0.35):
        subject = pronoun("I")
    mode = Mode(chooser.pick(("present", "present", "past")), chooser.chance(0.25), "want")
    one = chooser.pick([one for one in _human(*AT_WILL) if one.english not in UNWISHED])
    return statement(chooser.event(one, mode, subject, timed=0.0, counted=0.05))


@construction(0.6)
def wish_question(chooser: Chooser) -> Draft:
    """Question about a wish. Example: Do you want to drink tea? - お茶を飲みたいですか。"""
    one = chooser.pick([one for one in _human(*AT_WILL) if one.english not in UNWISHED])
    clause = chooser.event(one, Mode("present", modality="want"), pronoun("you"), question=True)
    return Draft(clause.english(), clause.japanese(), (clause,), "?")


@construction(1.0)
def wanted_thing(chooser: Chooser) -> Draft:
    """Wish for a thing. Example: Taro wants a new bicycle. - タロウは新しい自転車をほしがっています。 I want … - 私は…がほしいです。"""
    one = verb("want", noun("watch"))
    entry = chooser.pick(nouns(*one.object))
    subject = pronoun("I") if chooser.chance(0.35) else chooser.subject(("person", "named"))
    mode = Mode(chooser.pick(("present", "present", "past")), chooser.chance(0.2))
    phrase = chooser.thing(entry, owned=False, described=0.6, priced=True)
    own = subject.person == 1
    particle = ("は" if mode.negative else "が") if own else "を"
    head = verb_head(one) if own else verb_head(one, ja.Predicate("ほし", "がっている", "ichidan"))
    return statement(Clause(head, subject, mode, (marked(phrase, "", particle, 0, 7),)))


@construction(1.5)
def ability(chooser: Chooser) -> Draft:
    """Ability. Example: Lucy can play the piano. - ルーシーはピアノを弾くことができます。 Short form: 弾けます."""
    one = chooser.pick(verbs(without=("nocan", "accident", "stative")))
    mode = Mode(chooser.pick(("present", "present", "past")), chooser.chance(0.45), "can", chooser.chance(0.15))
    if not mode.negative and (mode.contracted or mode.tense == "past"):
        mode = Mode("present", modality="can")
    return statement(chooser.event(one, mode, timed=0.0, counted=0.0, placed=0.15, accompanied=0.0))


@construction(0.6)
def ability_question(chooser: Chooser) -> Draft:
    """Question about an ability. Example: Can you read French? - フランス語を読めますか。"""
    one = chooser.pick(_human("nocan", *AT_WILL))
    subject = pronoun("you") if chooser.chance(0.5) else chooser.subject(one.subject, speaker=False)
    mode = Mode("present", modality="can")
    clause = chooser.event(one, mode, subject, question=True, timed=0.0, counted=0.0, placed=0.1, accompanied=0.0)
    return Draft(clause.english(), clause.japanese(), (clause,), "?")


@construction(1.5)
def duty(chooser: Chooser) -> Draft:
    """Duty. Example: Ken must do his homework. - ケンは…しなければなりません。 does not have to - しなくてもいいです."""
    modality = chooser.pick(("must", "have to"))
    negative = modality == "have to" and chooser.chance(0.4)
    tense = "past" if modality == "have to" and not negative and chooser.chance(0.3) else "present"
    mode = Mode(tense, negative, modality)
    one = chooser.pick([one for one in _human(*AT_WILL) if one.english not in MISCHIEF])
    return statement(chooser.event(one, mode, _person(chooser), timed=0.0, accompanied=0.05))


@construction(0.8)
def prohibition(chooser: Chooser) -> Draft:
    """Prohibition. Example: You must not touch the lion. - ライオンに触ってはいけません。"""
    mode = Mode("present", True, "must")
    subject = _person(chooser, you=0.7)
    one = chooser.pick([one for one in _human(*AT_WILL) if one.english not in HARMLESS])
    return statement(chooser.event(one, mode, subject, timed=0.0, accompanied=0.0, counted=0.0))


@construction(0.8)
def permission(chooser: Chooser) -> Draft:
    """Permission. Example: You may eat the cake. - ケーキを食べてもいいです。 May I …? - …てもいいですか。"""
    one = chooser.pick(_human(*AT_WILL))
    asked = chooser.chance(0.5)
    subject = pronoun("I", dropped=True) if asked else pronoun("you")
    mode = Mode("present", modality="may")
    clause = chooser.event(one, mode, subject, timed=0.0, accompanied=0.0, question=asked, placed=0.2)
    return Draft(clause.english(), clause.japanese(), (clause,), "?" if asked else ".")


@construction(1.0)
def request(chooser: Chooser) -> Draft:
    """Request. Example: Please close the window. - 窓を閉めてください。 Please do not … - …ないでください。"""
    mode = Mode("present", chooser.chance(0.35), NONFINITE)
    one = chooser.pick(
        [one for one in _human(*AT_WILL) if one.english not in ("borrow", "ride", "chase", "choose", "meet")]
    )
    clause = chooser.event(one, mode, pronoun("you"), timed=0.0, accompanied=0.0)
    return Draft(clause.imperative("please"), clause.japanese(ja.request), (clause,))


@construction(1.0)
def suggestion(chooser: Chooser) -> Draft:
    """Suggestion. Example: Let's play tennis in the park tomorrow. - 明日公園でテニスをしましょう。"""
    one = chooser.pick(
        [one for one in verbs(without=AT_WILL) if "together" in one.features and one.english != "come to"]
    )
    mode = Mode("future", modality=NONFINITE)
    clause = chooser.event(one, mode, pronoun("we", dropped=True), accompanied=0.15)
    return Draft(clause.imperative("let's"), clause.japanese(ja.volitional), (clause,))


@construction(0.8)
def experience(chooser: Chooser) -> Draft:
    """Experience. Example: Mary has been to Kyoto. She has never eaten sushi. - …たことがあります。"""
    one = chooser.pick([one for one in _human("stative", "accident") if one.english not in COMMON or _tasting(one)])
    subject = chooser.subject(("person", "named"))
    mode = Mode("present", chooser.chance(0.45), "experience")
    clause = chooser.event(one, mode, subject, timed=0.0, counted=0.0, placed=0.25, generic=True)
    # 'Has eaten dinner' would refer to today and express no experience.
    daily = any(c.entry is not None and c.entry.kinds & {"meal", "homework"} for c in clause.complements)
    return experience(chooser) if daily else statement(clause)


def _tasting(one: Verb) -> bool:
    return one.english == "eat" and "food" in one.object


# Nominalised clauses: の as a noun, に for a purpose.


CHORES = frozenset(("open", "close", "call", "wait for", "order", "come to", "carry", "use"))
"""Actions that people hardly like for their own sake."""


def _doing(chooser: Chooser, subject: NounPhrase) -> Clause:
    one = chooser.pick([one for one in _human("rare", *AT_WILL) if one.english not in CHORES])
    return chooser.event(one, Mode("present", modality=NONFINITE), subject, timed=0.0, generic=True, accompanied=0.1)


@construction(1.2)
def liking_to(chooser: Chooser) -> Draft:
    """Liking of an activity. Example: Sam likes swimming in the sea. - サムは海で泳ぐのが好きです。"""
    subject = chooser.subject(("person", "named"))
    doing = _doing(chooser, subject)
    like = verb(chooser.pick(("like", "like", "love")), noun("dog"))
    link = Link()
    gerund = Complement(
        doing.gerund(), (*doing.japanese(ja.dictionary, topic=None), Word("の"), Word("が", link)), 0, 7
    )
    mode = Mode(chooser.pick(("present", "present", "past")), like.english == "like" and chooser.chance(0.3))
    clause = Clause(verb_head(like), subject, mode, (gerund,))
    return Draft(clause.english(), clause.japanese(), (clause, doing))


@construction(1.0)
def purpose(chooser: Chooser) -> Draft:
    """Purpose of a journey. Example: Emi went to the library to borrow a book. - エミは本を借りに図書館へ行きました。"""
    scene = chooser.pick([scene for scene in SCENES if "visit" in noun(scene.place).kinds and scene.verb in ERRANDS])
    subject = chooser.subject(("person", "named"))
    tense = chooser.pick(("past", "past", "future"))
    doing = scene_event(chooser, scene.verb, scene.object, subject, Mode("present", modality=NONFINITE))
    link = Link()
    aim = Complement(
        (Word("to", link), *doing.infinitive()), (*doing.japanese(ja.continuative, topic=None), Word("に", link)), 1, 6
    )
    goal = marked(chooser.goal(noun(scene.place)), "", "へ", 0, 7)
    time = (chooser.time(tense),) if chooser.chance(0.4) else ()
    clause = Clause(verb_head(verb("go to")), subject, Mode(tense), (goal, aim, *time))
    return Draft(clause.english(), clause.japanese(), (clause, doing))


ERRANDS = frozenset(
    ("read", "study", "borrow", "play", "eat", "drink", "buy", "meet", "swim", "catch", "practice", "draw", "look for")
)


def scene_event(chooser: Chooser, name: str, kind: str | None, subject: NounPhrase, mode: Mode) -> Clause:
    """Build a typical event at a place, without the name of the place."""
    if kind is None:
        one = verb(name)
        complements = (chooser.object(one, subject, 0.0),) if one.transitive else ()
        return Clause(verb_head(one), subject, mode, complements)
    one, entry = chooser.pick(takers(name, kind))
    phrase = chooser.thing(
        entry,
        subject,
        owned="gain" not in one.features,
        described=0.0 if entry.animate else 0.12,
        counted=0.1,
        priced=name in TRADING,
        pointed=name not in CREATING,
    )
    return Clause(verb_head(one), subject, mode, (marked(phrase, "", one.particle, 0, 7),))


@construction(0.8)
def while_doing(chooser: Chooser) -> Draft:
    """Sentence with a while-clause. Example: Tom studied while listening to music. - トムは音楽を聞きながら勉強しました。"""
    subject = chooser.subject(("person", "named"))
    main, kind, aside, thing = chooser.pick(SIDE_BY_SIDE)
    tense = chooser.pick(("past", "past", "future"))
    first = scene_event(chooser, main, kind, subject, Mode(tense))
    second = scene_event(chooser, aside, thing, subject, Mode(modality=NONFINITE))
    time = (chooser.time(tense, brief=True),) if chooser.chance(0.3) else ()
    clause = Clause(first.head, subject, Mode(tense), (*first.complements, *time))
    link = Link()
    aim = Complement(
        (Word("while", link), *second.gerund()),
        (*second.japanese(ja.continuative, topic=None), Word("ながら", link)),
        1,
        2,
    )
    clause.complements = (*clause.complements, aim)
    return Draft(clause.english(), clause.japanese(), (clause, second))


SIDE_BY_SIDE = (
    ("study", "study", "listen to", "listen"),
    ("study", "study", "drink", "brewed"),
    ("cook", None, "listen to", "listen"),
    ("cook", None, "sing", "song"),
    ("walk", None, "sing", "song"),
    ("walk", None, "eat", "ice-cream"),
    ("run", None, "listen to", "listen"),
    ("read", "text", "drink", "drink"),
    ("read", "book", "eat", "sweets"),
    ("watch", "show", "eat", "sweets"),
    ("watch", "tv", "drink", "drink"),
    ("wash", "dishes", "sing", "song"),
    ("clean", "clean", "listen to", "listen"),
    ("draw", "draw", "listen to", "listen"),
)
