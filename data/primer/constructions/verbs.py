"""Build sentences with modality: wish, ability, permission, duty, request, experience, liking."""

from __future__ import annotations

from data.primer.constructions.basic import by_people, sentence, usual
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import NONFINITE, Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.noun_phrases import NounPhrase, pronoun
from data.primer.grammar.selectional_restrictions import CREATING, TRADING
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Word
from data.primer.lexicon import SCENES, noun, nouns, takers, verb

WILLED = by_people(usual("future"))
"""Actions that people do on purpose."""
UNWISHED = frozenset("hide chase carry close open return sell".split()) | {"look for", "wait for", "pick up", "come to"}
"""Everyday actions that are neither a wish nor a life experience."""
HARMLESS = frozenset(("look for", "help", "wait for", "rest", "visit", "study", "return", "clean"))
"""Actions that nobody forbids."""
MISCHIEF = frozenset(("hide", "chase", "touch", "catch", "see"))
"""Actions that are not a duty."""
COMMON = UNWISHED | {"come to", "listen to", "sit on", "get up"}
COMMON |= set("meet throw watch eat drink cut order wash choose use call do practice study sleep rest walk run".split())
COMMON |= set("work hide play sing clean wear".split())
"""Actions that everybody has done and that are no experience: not 'Ken has never slept'. For food see `experience`."""


def _person(chooser: Chooser, you: float = 0.0) -> NounPhrase:
    return pronoun("you") if chooser.chance(you) else chooser.subject(("person", "named"))


@construction(2.0)
def wish(chooser: Chooser) -> Draft:
    """Statement about a wish to do something. Example: I want to read. - 私は読みたいです。 Ken wants to … - ケンは…たがっています。"""
    subject = chooser.subject(("person", "named"))
    if chooser.chance(0.35):
        subject = pronoun("I")
    mode = Mode(chooser.pick(("present", "present", "past")), chooser.chance(0.25), "want")
    action = chooser.pick([action for action in WILLED if action.english not in UNWISHED])
    return sentence(chooser.event(action, mode, subject, timed=0.0, counted=0.05))


@construction(0.6)
def wish_question(chooser: Chooser) -> Draft:
    """Question about a wish to do something. Example: Do you want to drink tea? - お茶を飲みたいですか。"""
    action = chooser.pick([action for action in WILLED if action.english not in UNWISHED])
    return sentence(chooser.event(action, Mode("present", modality="want"), pronoun("you"), question=True))


@construction(1.0)
def wanted_thing(chooser: Chooser) -> Draft:
    """Statement about a wish to have a thing. Example: Taro wants a bicycle. - タロウは自転車をほしがっています。 I want … - 私は…がほしいです。"""
    action = verb("want", noun("watch"))
    entry = chooser.pick(nouns(*action.object))
    subject = pronoun("I") if chooser.chance(0.35) else chooser.subject(("person", "named"))
    mode = Mode(chooser.pick(("present", "present", "past")), chooser.chance(0.2))
    phrase = chooser.thing(entry, owned=False, described=0.6, priced=True)
    speakers_own = subject.person == 1
    particle = ("は" if mode.negative else "が") if speakers_own else "を"
    head = verb_head(action) if speakers_own else verb_head(action, ja.Predicate("ほし", "がっている", "ichidan"))
    return sentence(Clause(head, subject, mode, (marked(phrase, "", particle, 0, 7),)))


@construction(1.5)
def ability(chooser: Chooser) -> Draft:
    """Statement about an ability. Example: Lucy can play the piano. - ルーシーはピアノを弾くことができます。 Short form: 弾けます."""
    action = chooser.pick([action for action in usual("future") if "nocan" not in action.features])
    mode = Mode(chooser.pick(("present", "present", "past")), chooser.chance(0.45), "can", chooser.chance(0.15))
    if not mode.negative and (mode.contracted or mode.tense == "past"):
        mode = Mode("present", modality="can")
    return sentence(chooser.event(action, mode, timed=0.0, counted=0.0, placed=0.15, accompanied=0.0))


@construction(0.6)
def ability_question(chooser: Chooser) -> Draft:
    """Question about an ability. Example: Can you read French? - フランス語を読めますか。"""
    action = chooser.pick([action for action in WILLED if "nocan" not in action.features])
    subject = pronoun("you") if chooser.chance(0.5) else chooser.subject(action.subject, speaker=False)
    mode = Mode("present", modality="can")
    clause = chooser.event(action, mode, subject, question=True, timed=0.0, counted=0.0, placed=0.1, accompanied=0.0)
    return sentence(clause)


@construction(1.5)
def duty(chooser: Chooser) -> Draft:
    """Statement about a duty. Example: Ken must do his homework. - ケンは…しなければなりません。 does not have to - しなくてもいいです."""
    modality = chooser.pick(("must", "have to"))
    negative = modality == "have to" and chooser.chance(0.4)
    tense = "past" if modality == "have to" and not negative and chooser.chance(0.3) else "present"
    mode = Mode(tense, negative, modality)
    action = chooser.pick([action for action in WILLED if action.english not in MISCHIEF])
    return sentence(chooser.event(action, mode, _person(chooser), timed=0.0, accompanied=0.05))


@construction(0.8)
def prohibition(chooser: Chooser) -> Draft:
    """Statement that forbids an action. Example: You must not touch the lion. - ライオンに触ってはいけません。"""
    mode = Mode("present", True, "must")
    subject = _person(chooser, you=0.7)
    action = chooser.pick([action for action in WILLED if action.english not in HARMLESS])
    return sentence(chooser.event(action, mode, subject, timed=0.0, accompanied=0.0, counted=0.0))


@construction(0.8)
def permission(chooser: Chooser) -> Draft:
    """Permission, or a request for permission. Example: You may eat the cake. - ケーキを食べてもいいです。 May I …? - …てもいいですか。"""
    action = chooser.pick(WILLED)
    asked = chooser.chance(0.5)
    subject = pronoun("I", dropped=True) if asked else pronoun("you")
    mode = Mode("present", modality="may")
    return sentence(chooser.event(action, mode, subject, timed=0.0, accompanied=0.0, question=asked, placed=0.2))


@construction(1.0)
def request(chooser: Chooser) -> Draft:
    """Request for an action. Example: Please close the window. - 窓を閉めてください。 Please do not … - …ないでください。"""
    mode = Mode("present", chooser.chance(0.35), NONFINITE)
    barred = ("borrow", "ride", "chase", "choose", "meet")
    action = chooser.pick([action for action in WILLED if action.english not in barred])
    clause = chooser.event(action, mode, pronoun("you"), timed=0.0, accompanied=0.0)
    return Draft(clause.imperative("please"), clause.japanese(ja.request), (clause,))


@construction(1.0)
def suggestion(chooser: Chooser) -> Draft:
    """Suggestion to do something together. Example: Let's play tennis in the park tomorrow. - 明日公園でテニスをしましょう。"""
    together = [action for action in usual("future") if "together" in action.features and action.english != "come to"]
    mode = Mode("future", modality=NONFINITE)
    clause = chooser.event(chooser.pick(together), mode, pronoun("we", dropped=True), accompanied=0.15)
    return Draft(clause.imperative("let's"), clause.japanese(ja.volitional), (clause,))


@construction(0.8)
def experience(chooser: Chooser) -> Draft:
    """Statement about an experience. Example: Mary has been to Kyoto. She has never eaten sushi. - …たことがあります。"""
    tasting = verb("eat", noun("cake"))
    action = chooser.pick([action for action in WILLED if action.english not in COMMON or action is tasting])
    subject = chooser.subject(("person", "named"))
    mode = Mode("present", chooser.chance(0.45), "experience")
    clause = chooser.event(action, mode, subject, timed=0.0, counted=0.0, placed=0.25, generic=True)
    # 'Has eaten dinner' would refer to today and express no experience.
    daily = any(c.entry is not None and c.entry.kinds & {"meal", "homework"} for c in clause.complements)
    return experience(chooser) if daily else sentence(clause)


# Nominalised clauses: の as a noun, に for a purpose.

CHORES = frozenset(("open", "close", "call", "wait for", "order", "come to", "carry", "use"))
"""Actions that people hardly like for their own sake."""


@construction(1.2)
def liking_to(chooser: Chooser) -> Draft:
    """Statement about liking an activity. Example: Sam likes swimming in the sea. - サムは海で泳ぐのが好きです。"""
    subject = chooser.subject(("person", "named"))
    action = chooser.pick(
        [action for action in WILLED if "rare" not in action.features and action.english not in CHORES]
    )
    mode = Mode("present", modality=NONFINITE)
    doing = chooser.event(action, mode, subject, timed=0.0, generic=True, accompanied=0.1)
    like = verb(chooser.pick(("like", "like", "love")), noun("dog"))
    link = Link()
    liked = (*doing.japanese(ja.dictionary, topic=None), Word("の"), Word("が", link))
    mode = Mode(chooser.pick(("present", "present", "past")), like.english == "like" and chooser.chance(0.3))
    return sentence(Clause(verb_head(like), subject, mode, (Complement(doing.gerund(), liked, 0, 7),)), doing)


@construction(1.0)
def purpose(chooser: Chooser) -> Draft:
    """Statement about the purpose of a journey. Example: Emi went to the library to borrow a book. - エミは本を借りに図書館へ行きました。"""
    scene = chooser.pick([scene for scene in SCENES if "visit" in noun(scene.place).kinds and scene.verb in ERRANDS])
    subject = chooser.subject(("person", "named"))
    tense = chooser.pick(("past", "past", "future"))
    doing = scene_event(chooser, scene.verb, scene.object, subject, Mode("present", modality=NONFINITE))
    link = Link()
    target = (*doing.japanese(ja.continuative, topic=None), Word("に", link))
    aim = Complement((Word("to", link), *doing.infinitive()), target, 1, 6)
    goal = marked(chooser.goal(noun(scene.place)), "", "へ", 0, 7)
    time = (chooser.time(tense),) if chooser.chance(0.4) else ()
    return sentence(Clause(verb_head(verb("go to")), subject, Mode(tense), (goal, aim, *time)), doing)


ERRANDS = frozenset(
    ("read", "study", "borrow", "play", "eat", "drink", "buy", "meet", "swim", "catch", "practice", "draw", "look for")
)


def scene_event(chooser: Chooser, name: str, kind: str | None, subject: NounPhrase, mode: Mode) -> Clause:
    """Build a clause about a typical event at a place, which is not named."""
    if kind is None:
        action = verb(name)
        complements = (chooser.object(action, subject, mode),) if action.transitive else ()
        return Clause(verb_head(action), subject, mode, complements)
    action, entry = chooser.pick(takers(name, kind))
    described, owned = 0.0 if entry.animate else 0.12, "gain" not in action.features
    priced, pointed = name in TRADING, name not in CREATING
    phrase = chooser.thing(
        entry, subject, owned=owned, described=described, counted=0.1, priced=priced, pointed=pointed
    )
    return Clause(verb_head(action), subject, mode, (marked(phrase, "", action.particle, 0, 7),))


@construction(0.8)
def while_doing(chooser: Chooser) -> Draft:
    """Sentence with a while-clause. Example: Tom studied while listening to music. - トムは音楽を聞きながら勉強しました。"""
    subject = chooser.subject(("person", "named"))
    main, kind, aside, thing = chooser.pick(SIDE_BY_SIDE)
    tense = chooser.pick(("past", "past", "future"))
    first = scene_event(chooser, main, kind, subject, Mode(tense))
    second = scene_event(chooser, aside, thing, subject, Mode(modality=NONFINITE))
    time = (chooser.time(tense, brief=True),) if chooser.chance(0.3) else ()
    link = Link()
    target = (*second.japanese(ja.continuative, topic=None), Word("ながら", link))
    meanwhile = Complement((Word("while", link), *second.gerund()), target, 1, 2)
    return sentence(Clause(first.head, subject, Mode(tense), (*first.complements, *time, meanwhile)), second)


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
