"""Plots in which words are repeated exactly: a list is written and read, a song learnt, a phone number noted.

The words are new in each story, so that only a model that looks up what came after the same word before can continue
the repetition. Nothing else in the corpus rewards that, and nothing else gives rise to induction heads (Olsson et al.
2022).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from data.primer.characters import Figure
from data.primer.grammar import japanese as ja
from data.primer.grammar import noun_phrases
from data.primer.grammar.choice import CALLED, Chooser, verbs
from data.primer.grammar.clauses import NONFINITE, Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.english import NUMBERS
from data.primer.grammar.noun_phrases import common, describing
from data.primer.grammar.tree import Link, Part, Parts, Word, words
from data.primer.lexicon import ADJECTIVES, CITIES, NOUNS, VERBS, Noun, adjective, noun, nouns, verb
from data.primer.plots.casting import apology, at, either, people, plot
from data.primer.storyteller import Teller

Sides = tuple[Parts, Parts]
"""The English and the Japanese of some words."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Words that a story repeats. Each repetition has links of its own, and no mentions: nothing else in the story
    refers to the things in a list."""

    english: Parts
    japanese: Parts

    def _again(self) -> Sides:
        links: dict[Link, Link] = defaultdict(Link)
        english, japanese = (
            tuple(Word(word.text, links[word.link] if word.link else None, word.content) for word in words(side))
            for side in (self.english, self.japanese)
        )
        return english, japanese

    def spoken(self) -> Complement:
        """Build what somebody says. Example: (said): K R T - 「K、R、T」と(言いました)."""
        english, japanese = self._again()
        return Complement((Word(":"), *english), (Word("「"), *japanese, Word("」"), Word("と")), LAST, 7)

    def worded(self) -> Complement:
        """Build the wording of an object. Example: (wrote a list): milk, tea - 「牛乳、お茶」という(リストを書きました)."""
        english, japanese = self._again()
        return Complement((Word(":"), *english), (Word("「"), *japanese, Word("」"), Word("という")), LAST, 6)

    def listed(self, particle: str) -> Complement:
        """Build the object of a verb. Example: (bought) milk, tea and a pie - 牛乳、お茶、パイを(買いました)."""
        english, japanese = self._again()
        return Complement(english, (*japanese, Word(particle)), 0, 7)


LAST = 9
"""English rank of quoted words: after the place and the time."""


def passage(items: Iterable[Sides], comma: str = ",", last: str = ",") -> Passage:
    """Join items: by commas, with `last` before the last one."""
    english: list[Part] = []
    japanese: list[Part] = []
    sides = list(items)
    for number, (source, target) in enumerate(sides):
        separator = "" if number == 0 else last if number == len(sides) - 1 else comma
        english += [*((Word(separator),) if separator else ()), *source]
        japanese += [*((Word("、"),) if number else ()), *target]
    return Passage(tuple(english), tuple(japanese))


def first_content(text: Passage) -> str:
    """Return the first content word of a passage."""
    return next(word.text for word in words(text.english) if word.content)


def helping(t: Teller, c: Chooser, helper: Figure, helped: Figure) -> str:
    """Add a sentence about help; return the state that is its reason."""
    why, rival, state = either(c, (helper, "kind"), (helped, "having trouble"))
    t.because(t.doing(helper, "help", helped), t.being(t.meant(why, rival), state))
    return state


def thanking(t: Teller, c: Chooser, helper: Figure, helped: Figure) -> None:
    """Add the end of a story about help."""
    t.tell(t.doing(helped, "thank", helper) if c.chance(0.5) else t.being(helped, "happy", very=c.chance(0.3)))


# Lists


def amount(entry: Noun, number: int) -> Sides:
    """Build an amount of something. Example: three apples - りんご三個; a mass noun has no number."""
    phrase = common(entry, "", number=number if entry.counter else None)
    return phrase.english, (*phrase.japanese, *phrase.quantity)


def amounts(c: Chooser, options: tuple[Noun, ...], count: int) -> list[Sides]:
    """Build amounts of different things; no number occurs twice."""
    return [
        amount(entry, number)
        for entry, number in zip(c.several(options, count), c.several(range(2, 11), count), strict=True)
    ]


GROCERIES = tuple(
    entry
    for entry in nouns("fruit", "vegetable", "staple", "drink", "sweets", "baked")
    if entry.counter or entry.english in ("bread", "milk", "tea", "coffee", "juice", "cheese", "meat")
)


@plot
def shopping_list(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody writes a shopping list, and the things on it are bought."""
    hero, friend = people(t, c)
    goods = passage(amounts(c, GROCERIES, c.pick(range(5, 9))), last="and")
    paper = Figure(noun("list"))
    t.tell(t.doing(hero, "go to", toward="supermarket", modality="have to"), "", "one day", "yesterday")
    state = helping(t, c, friend, hero)
    t.tell(t.doing(friend, "write", paper, goods.worded()))
    if c.chance(0.5):
        t.tell(t.doing(hero, "read", paper, goods.worded()), "", "then")
        t.tell(t.doing(hero, "buy", None, goods.listed("を"), at("supermarket")), "after that", "soon")
    else:
        t.tell(t.doing(hero, "read", paper, goods.worded(), at("supermarket")), "", "then")
        t.tell(t.doing(hero, "buy", None, goods.listed("を")), "after that", "")
    if c.chance(0.5):
        thanking(t, c, friend, hero)
    return (first_content(goods), state)


@plot
def lesson(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody practises nouns, adjectives or verbs. Only here can a word follow any other, with nothing between them:
    this alone makes a head that copies every word."""
    hero, friend = people(t, c)
    kind, vocabulary = c.weighted(LESSONS)
    chosen = c.several(vocabulary, c.pick(range(12, 17)))
    text, practiced = passage((pair(*entry) for entry in chosen), comma="", last=""), Figure(noun(kind), plural=True)
    t.tell(t.doing(hero, "practice", practiced, modality=c.pick(("want", "have to"))), "", "one day", "yesterday")
    state = helping(t, c, friend, hero)
    teacher, *rest = c.pick(ROUNDS)
    t.tell(t.doing(friend, teacher, practiced, text.worded()), "", "then")
    for action, leads in zip(rest, (("then", "soon", ""), ("after that", "that evening")), strict=True):
        t.tell(t.doing(hero, action, practiced, text.worded()), *leads)
    if c.chance(0.7):
        t.tell(t.doing(friend, "read", practiced, text.worded()), "", "then")
    else:
        thanking(t, c, friend, hero)
    return (chosen[0][0], state)


ROUNDS = (("write", "read", "write"), ("read", "write", "read"))
"""What the teacher does, then the learner, twice."""


def _different(entries: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return single words with the first of their translations, without those that have that of an earlier word."""
    translations: dict[str, str] = {}
    for english, japanese in entries:
        if japanese not in translations.values():
            translations.setdefault(english, japanese)
    return tuple((english, japanese) for english, japanese in translations.items() if " " not in english)


INFLECTED = tuple(entry for entry in VERBS if entry.kind not in ("i", "na"))
"""Verbs that are verbs in Japanese too."""
DESCRIPTIVE = tuple(entry for entry in ADJECTIVES if entry.kind in ("i", "ii", "na"))
"""Adjectives that are adjectives in Japanese too."""
VOCABULARY = (
    (
        "noun",
        _different(
            [(entry.english, entry.writing) for entry in NOUNS] + [(city.english, city.writing) for city in CITIES]
        ),
    ),
    ("adjective", _different((entry.english, ja.attributive(entry.predicate).text) for entry in DESCRIPTIVE)),
    ("verb", _different((entry.english, ja.dictionary(entry.predicate).text) for entry in INFLECTED)),
    ("verb", _different((entry.past, ja.ta(entry.predicate).text) for entry in INFLECTED)),
)
"""Words of one kind with their translations; the second verbs are in the past."""
LESSONS = [((kind, entries), len(entries)) for kind, entries in VOCABULARY]


def pair(english: str, japanese: str) -> Sides:
    """Build a word and its translation."""
    link = Link()
    return (Word(english, link, True),), (Word(japanese, link, True),)


@plot
def invitation(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody invites many people, with the help of a list of their names."""
    hero, friend = people(t, c)
    guests = [entry for entry in CALLED if entry not in (hero.entry, friend.entry)]
    names = [noun_phrases.name(entry) for entry in c.several(guests, c.pick(range(5, 9)))]
    called = passage(((name.english, name.japanese) for name in names), last="and")
    paper = Figure(noun("list"))
    t.tell(t.doing(hero, "invite", None, called.listed("を"), modality="want"), "", "one day")
    state = helping(t, c, friend, hero)
    t.tell(t.doing(friend, "write", paper, called.worded()))
    if c.chance(0.5):
        t.tell(t.doing(hero, "read", paper, called.worded()), "then", "")
    action, particle = c.pick((("call", "に"), ("invite", "を")))
    t.tell(t.doing(hero, action, None, called.listed(particle)), "after that", "that evening")
    if c.chance(0.5):
        thanking(t, c, friend, hero)
    return (first_content(called), state)


STEPS = ("wash", "peel", "cut", "boil", "fry", "add")
"""In the order of a recipe."""


@plot
def recipe(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody cooks by the recipe of a friend."""
    hero, friend = people(t, c)
    count = c.pick(range(4, 7))
    steps = passage(
        step(action, ingredient, number)
        for action, ingredient, number in zip(
            sorted(c.several(STEPS, count), key=STEPS.index),
            c.several(nouns("vegetable"), count),
            c.several(range(2, 8), count),
            strict=True,
        )
    )
    dish, how = Figure(noun(c.pick(("soup", "curry")))), Figure(noun("recipe"))
    t.tell(t.doing(hero, "make", dish, modality=c.pick(("want", "have to"))), "", "one day", "yesterday")
    state = helping(t, c, friend, hero)
    t.tell(t.doing(friend, "say", None, steps.spoken()))
    t.tell(t.doing(hero, "write", how, steps.worded()), "", "then")
    t.tell(t.doing(hero, "read", how, steps.worded(), at("kitchen")), "after that", "then")
    t.tell(t.doing(hero, "make", dish), "soon", "at last")
    if c.chance(0.5):
        thanking(t, c, friend, hero)
    return (first_content(steps), state)


def step(action: str, ingredient: Noun, number: int) -> Sides:
    """Build a step of a recipe. Example: cut three onions - 玉ねぎを三個切る."""
    what = marked(common(ingredient, "", number=number), "", "を", 0, 7)
    cook = Clause(verb_head(verb(action)), noun_phrases.pronoun("you"), Mode("present", modality=NONFINITE), (what,))
    return cook.infinitive(), cook.japanese(ja.dictionary, topic=None)


# Songs


SINGERS = tuple(entry for entry in nouns("animal") if entry.english != "fish")
LOOKS = "big small young white black red blue yellow cute strong smart slow hungry tired happy sad brave busy".split()
ACTS = "sing dance swim run walk sleep laugh cry work cook study rest".split()


@plot
def song(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody teaches a friend a song."""
    hero, friend = people(t, c)
    count = c.pick(range(4, 7))
    lines = passage(
        line(look, singer, act)
        for look, singer, act in zip(
            c.several(LOOKS, count), c.several(SINGERS, count), c.several(ACTS, count), strict=True
        )
    )
    melody = Figure(noun("song"))
    t.tell(t.doing(hero, "practice", melody, modality="have to"), "", "one day", "yesterday")
    state = helping(t, c, friend, hero)
    t.tell(t.doing(friend, "sing", melody, lines.worded()))
    t.tell(t.doing(hero, "sing", melody, lines.worded()), "then", "soon", "")
    t.tell(t.doing(hero, "sing", melody, lines.worded(), at(c.pick(("garden", "park", "kitchen")))), "that evening")
    if c.chance(0.5):
        thanking(t, c, friend, hero)
    return (first_content(lines), state)


def line(look: str, singer: Noun, act: str) -> Sides:
    """Build a line of a song. Example: big bears swim - 大きい熊が泳ぐ."""
    singers = common(singer, "", describing(adjective(look)), plural=True)
    clause = Clause(verb_head(verb(act)), singers, Mode("present"))
    return clause.english(), clause.japanese(ja.dictionary, topic="が")


# Numbers, letters and sentences


@plot
def phone_number(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody has forgotten the phone number of a friend, who tells it again."""
    hero, friend = people(t, c)
    digits = passage((digit(number) for number in c.several(range(1, 10), c.pick(range(6, 10)))), comma="", last="")
    number = Figure(noun("phone number"), owner=friend)
    t.tell(t.doing(hero, "forget", number), "", "one day")
    t.tell(t.doing(hero, "meet", friend, at(c.pick(("park", "library", "station")))), "", "after that")
    state = apology(t, c, hero, friend, "forget", number)
    t.tell(t.doing(friend, "say", None, digits.spoken()), "", "then")
    t.tell(t.doing(hero, "write", number, digits.worded()))
    t.tell(t.doing(hero, "read", number, digits.worded()), "that evening")
    t.tell(t.doing(hero, "call", friend), "", "then")
    return (first_content(digits), state)


def digit(number: int) -> Sides:
    """Build a digit that is read out. Example: seven - 七."""
    link = Link()
    return (Word(NUMBERS[number], link, True),), (Word("一二三四五六七八九"[number - 1], link, True),)


LETTERS = "BCDEFGHJKLMNPQRSTUVWXYZ"
"""Letters that are not words."""


@plot
def password(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody has forgotten the password of a friend, who spells it."""
    hero, friend = people(t, c)
    letters = passage((spelt(name) for name in c.several(LETTERS, c.pick(range(5, 9)))), comma="", last="")
    secret, machine = (Figure(noun(name), owner=friend) for name in ("password", "computer"))
    t.tell(t.doing(hero, "use", machine, modality="want"), "", "one day", "yesterday")
    t.tell(t.doing(hero, "forget", secret))
    state = helping(t, c, friend, hero)
    t.tell(t.doing(friend, "say", None, letters.spoken()), "", "then")
    t.tell(t.doing(hero, "write", secret, letters.worded()), "", "then")
    t.tell(t.doing(friend, "read", secret, letters.worded()))
    if c.chance(0.5):
        thanking(t, c, friend, hero)
    return (first_content(letters), state)


def spelt(name: str) -> Sides:
    """Build a letter, which is the same in both languages."""
    link = Link()
    return (Word(name, link, True),), (Word(name, link, True),)


@plot
def message(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody notes a message on the phone and reads it to the caller."""
    hero, friend = people(t, c)
    news, note = report(c), Figure(noun("message"))
    t.tell(t.doing(friend, "call", hero), "", "one day", "yesterday")
    t.tell(t.doing(friend, "say", None, news.spoken()))
    t.tell(t.doing(hero, "write", note, news.worded()))
    t.tell(t.doing(hero, "read", note, news.worded()), "then", "")
    why, rival, state = either(c, (hero, "kind"), (friend, "happy"))
    t.because(t.doing(friend, "thank", hero), t.being(t.meant(why, rival), state))
    return (first_content(news), state)


def report(c: Chooser) -> Passage:
    """Build two sentences about nobody in the story."""
    link = Link()
    (first, before), (second, after) = event(c, ja.te), event(c)
    return Passage((*first, Word("and", link), *second), (*before, Word("、"), *after))


ACTIONS = verbs(without=("accident",))
POINTING = frozenset(("'s", "my", "his", "her", "their", "this", "that", *(entry.english for entry in CALLED)))
"""Words that refer to something outside the sentence."""


def event(c: Chooser, form: ja.Form | None = None) -> Sides:
    """Build a sentence. Example: a young nurse bought a red bicycle at the station yesterday."""
    while True:
        action = c.pick(ACTIONS)
        actor = c.pick([entry for entry in nouns(*action.subject) if entry.english != "friend"])
        who = common(actor, c.pick(("a", "the")), *c.describe(actor, 0.7))
        clause = c.event(action, Mode("past"), who, timed=0.6, placed=0.8, accompanied=0.0, counted=0.3)
        english = clause.english()
        if not POINTING & {word.text for word in words(english)}:
            return english, clause.japanese(form)
