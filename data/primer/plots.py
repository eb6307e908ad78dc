"""The plots: somebody wants, loses, looks for, finds, gives, breaks, prefers something, and why.

A plot tells its story through a `Teller`, which decides on pronouns, and returns the content words that make it this story and no
other (for the `novel` split). Sentences are three to eight.
"""

from __future__ import annotations

from collections.abc import Callable

from data.primer.choice import CALLED, Chooser, preposition
from data.primer.clauses import Complement, marked
from data.primer.constructions.basic import beside
from data.primer.lexicon import POSITIONS, SCALES, Noun, adjectives_for, noun, nouns, suiting
from data.primer.noun_phrases import common
from data.primer.telling import Figure, Teller
from data.primer.tree import Link, Word

Plot = Callable[[Teller, Chooser], tuple[str, ...]]
PLOTS: list[tuple[str, Plot]] = []


def plot(function: Plot) -> Plot:
    """Register a plot under the name of its function."""
    PLOTS.append((function.__name__, function))
    return function


# Casting and places


def people(chooser: Chooser) -> tuple[Figure, Figure]:
    """Two people, most often one 'he' and one 'she'."""
    first, second = chooser.pair(CALLED)
    while first.pronoun == second.pronoun and chooser.chance(0.6):
        first, second = chooser.pair(CALLED)
    return Figure(first), Figure(second)


COLORS = frozenset(("red", "blue", "white", "black", "yellow"))
VISIBLE = COLORS | {"big", "small", "new", "old", "pretty", "beautiful"}


def thing(chooser: Chooser, entry: Noun, plain: float = 0.3, qualities: frozenset[str] = VISIBLE) -> Figure:
    """A thing, with a quality that can be seen or without."""
    seen = [said for said in adjectives_for(entry) if said.english in qualities]
    return Figure(entry, None if not seen or chooser.chance(plain) else chooser.pick(seen))


FINDABLE = tuple("key ball doll ring watch umbrella pen photo toy letter hat camera notebook book ticket map".split())
INDOORS = ("kitchen", "room", "garden", "library", "classroom", "park", "house")


def at(place: str, particle: str = "で") -> Complement:
    """in the kitchen - 台所で."""
    return marked(common(noun(place)), preposition(noun(place)), particle, 4, 2)


def spot(
    chooser: Chooser, particle: str = "で", landmarks: tuple[str, ...] = ("table", "bed", "sofa", "desk", "chair")
) -> Complement:
    """under the bed - ベッドの下で."""
    under = next(position for position in POSITIONS if position.english == "under")
    behind = next(position for position in POSITIONS if position.english == "behind")
    position = chooser.pick((under, under, behind))
    english, (*place, _) = beside(position, common(noun(chooser.pick(landmarks))))
    return Complement(
        english, (*place, Word(particle, english[0].link if isinstance(english[0], Word) else Link())), 4, 2
    )


# Plots


@plot
def lost_and_found(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Something is lost, looked for in several places, and found by its owner or by a friend."""
    hero, friend = people(c)
    it = thing(c, noun(c.pick(FINDABLE)))
    if c.chance(0.5):
        t.tell(t.doing(hero, "have", it))
        t.tell(t.doing(hero, "lose", it, at(c.pick(("park", "library", "garden")))), c.pick(("one day", "yesterday")))
    else:
        t.tell(t.doing(hero, "lose", it), c.pick(("", "one day", "yesterday")))
    if c.chance(0.3):
        t.tell(t.being(hero, c.pick(("angry", "tired"))))
    first, second = c.pair(INDOORS)
    t.tell(t.doing(hero, "look for", it, at(first)))
    if c.chance(0.5):
        t.tell(t.doing(hero, "look for", it, at(second)), "then")
    if c.chance(0.5):
        t.tell(t.doing(hero, "find", it, negative=True, modality="can"))
    if c.chance(0.5):
        t.tell(t.doing(friend, "find", it, spot(c)), c.pick(("", "soon", "at last")))
        t.tell(t.doing(friend, "return", it, to=hero))
    else:
        t.tell(t.doing(hero, "find", it, spot(c)), "at last")
    if c.chance(0.5):
        t.tell(t.being(hero, "happy", very=c.chance(0.3)))
    return (it.entry.english, first)


SHOPS = (
    ("bakery", "baked"),
    ("toy store", "toy"),
    ("department store", "top"),
    ("department store", "gift"),
    ("bookstore", "book"),
    ("supermarket", "fruit"),
    ("supermarket", "tart"),
    ("flower shop", "plant"),
)


@plot
def shopping(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Two things in a shop: one is preferred, bought, and taken home or used."""
    hero, friend = people(c)
    shop, kind = c.pick(SHOPS)
    options = [
        entry
        for entry in nouns(kind)
        if entry.plural
        and entry.english != "toy"
        and "goods" in entry.kinds | ({"goods"} if "food" in entry.kinds else set())
    ]
    if len(options) < 2:
        return shopping(t, c)
    one, other = (Figure(entry) for entry in c.pair(options))
    scale = next(scale for scale in SCALES if scale.kind in (*sorted(one.entry.kinds & other.entry.kinds), "gift"))
    how = c.pick(("more", "less", "too"))
    names = scale.good if how == "more" else scale.bad
    assert isinstance(one.entry, Noun)
    assert isinstance(other.entry, Noun)
    fitting = [said for said in suiting(one.entry, names) if said in suiting(other.entry, names)]
    if not fitting:
        return shopping(t, c)
    quality = c.pick(fitting).english
    t.tell(t.doing(hero, "go to", toward=shop), c.pick(("", "one day", "yesterday")))
    t.tell(t.seeing_both(hero, at(shop), one, other))
    if c.chance(0.4):
        t.tell(
            t.being(c.pick((one, other)), "expensive" if quality != "expensive" else "new")
            if "goods" in one.entry.kinds
            else t.being(hero, "hungry")
        )
    t.preferring(hero, one, other, quality, how)
    t.tell(t.doing(hero, "buy", one))
    draw = c.chance(0.5)
    if "food" in one.entry.kinds and draw:
        t.tell(t.doing(hero, "eat", one, at(c.pick(("park", "kitchen", "garden")))), c.pick(("", "then")))
    elif "gift" in one.entry.kinds and draw:
        t.tell(t.doing(hero, "give", one, to=friend), c.pick(("", "then", "the next day")))
        t.tell(t.being(friend, "happy"))
    return (one.entry.english, other.entry.english)


@plot
def present(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A present is chosen for a friend, and why just this one."""
    hero, friend = people(c)
    entry = c.pick(
        [entry for entry in nouns("gift") if suiting(entry, ("cheap", "pretty", "cute", "useful", "beautiful"))]
    )
    gift = thing(c, entry, 0.5)
    shop = "flower shop" if "plant" in entry.kinds else "bookstore" if "book" in entry.kinds else "department store"
    t.tell(
        t.doing(hero, "meet", friend, at(c.pick(("park", "library", "restaurant")))),
        c.pick(("", "one day", "yesterday")),
    )
    t.tell(t.doing(hero, "go to", toward=shop), c.pick(("after that", "the next day")))
    quality = c.pick(suiting(entry, ("cheap", "pretty", "cute", "useful", "beautiful")))
    other = adjectives_for(entry)
    if c.chance(0.4) and "expensive" in [said.english for said in other] and quality.english != "cheap":
        t.because(t.doing(hero, "choose", gift), gift, quality.english)
        t.joined(t.being(gift, "expensive"), "but", t.doing(hero, "buy", gift))
    else:
        t.because(t.doing(hero, "buy", gift), gift, quality.english)
    t.tell(t.doing(hero, "give", gift, to=friend), c.pick(("", "that evening")))
    if c.chance(0.6):
        t.tell(t.being(friend, "happy", very=c.chance(0.4)))
    if c.chance(0.5) and "top" in entry.kinds:
        t.tell(t.doing(friend, "wear", gift), "the next day")
    return (entry.english, quality.english)


PETS = ("dog", "cat", "puppy", "kitten", "rabbit", "hamster", "turtle", "bird")


@plot
def runaway(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A pet goes off by itself and is looked for."""
    hero, friend = people(c)
    pet = thing(c, noun(c.pick(PETS)))
    place = c.pick(("park", "forest", "river", "garden", "station"))
    t.tell(t.doing(hero, "have", pet))
    if c.chance(0.4):
        t.tell(t.being(pet, c.pick(("cute", "gentle" if "pet" in pet.entry.kinds else "cute")), very=c.chance(0.3)))
    t.tell(
        t.doing(pet, "go to", toward=place)
        if place != "garden"
        else t.doing(pet, "hide", None, spot(c, "に", ("tree",))),
        "one day",
    )
    t.tell(t.doing(hero, "look for", pet, at(c.pick(("house", "room", "kitchen")))))
    if c.chance(0.5):
        t.tell(t.doing(hero, "find", pet, negative=True, modality="can"))
    if c.chance(0.5):
        finder = friend
        t.tell(t.doing(friend, "help", hero), "then")
    else:
        finder = hero
    t.tell(t.doing(finder, "find", pet, spot(c, landmarks=("tree",))), c.pick(("at last", "soon")))
    if c.chance(0.6):
        t.joined(t.being(pet, c.pick(("tired", "hungry", "healthy"))), "but", t.being(hero, "happy"))
    else:
        t.tell(t.doing(pet, "sleep", modality="progressive"))
    return (pet.entry.english, place)


RECIPES = (
    ("cake", "egg"),
    ("cake", "strawberry"),
    ("cake", "lemon"),
    ("cookie", "egg"),
    ("pie", "apple"),
    ("pie", "pumpkin"),
    ("pie", "peach"),
    ("pancake", "egg"),
    ("pancake", "banana"),
    ("sandwich", "tomato"),
    ("sandwich", "cucumber"),
    ("hamburger", "onion"),
    ("pizza", "tomato"),
    ("salad", "carrot"),
    ("salad", "cucumber"),
)


@plot
def cooking(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody hungry cooks, and a friend shares."""
    hero, friend = people(c)
    entry, bought = (noun(name) for name in c.pick(RECIPES))
    action = "bake" if "baked" in entry.kinds else "make"
    dish = Figure(entry)
    t.joined(
        t.being(hero, "hungry"),
        "so",
        t.doing(hero, "go to", toward="supermarket"),
        c.pick(("", "one day", "yesterday")),
    )
    t.tell(t.doing(hero, "buy", thing(c, bought)))
    t.tell(t.doing(hero, action, dish, at("kitchen")), c.pick(("then", "after that")))
    if c.chance(0.5):
        t.tell(t.being(dish, "delicious", very=c.chance(0.5)))
    if c.chance(0.7):
        t.tell(t.doing(friend, "eat", dish, modality="want"))
        if "sweets" in entry.kinds or "dish" in entry.kinds:
            t.joined(t.being(hero, "kind"), "so", t.doing(hero, "give", dish, to=friend))
    else:
        t.because(t.doing(hero, "eat", dish), dish, "delicious")
        t.tell(t.doing(hero, "sleep"), "then")
    return (entry.english, bought.english)


@plot
def borrowed(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A book or a tool is lent, used and returned."""
    owner, reader = people(c)
    entry = c.pick(nouns("book", "tool"))
    it = thing(c, entry)
    action = "read" if "book" in entry.kinds else "use"
    t.tell(t.doing(owner, "have" if "goods" in entry.kinds else "buy", it))
    if c.chance(0.4):
        t.tell(t.doing(reader, action, it, modality="want"))
    t.tell(t.doing(owner, "lend", it, to=reader), c.pick(("", "one day", "yesterday")))
    t.tell(t.doing(reader, action, it, at(c.pick(("park", "library", "room", "garden")))), c.pick(("", "that evening")))
    good = suiting(entry, ("interesting", "useful", "light", "new"))
    bad = suiting(entry, ("difficult", "heavy", "boring"))
    if good and c.chance(0.5):
        t.tell(t.being(it, c.pick(good).english, very=c.chance(0.4)))
    elif bad and c.chance(0.5):
        t.because(t.doing(reader, action, it, negative=True), it, c.pick(bad).english)
    t.tell(t.doing(reader, "return", it, to=owner), c.pick(("the next day", "after that")))
    return (entry.english, action)


@plot
def broken(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Something of a friend's breaks and is mended."""
    hero, friend = people(c)
    entry = c.pick([entry for entry in nouns("machine", "toy") if "goods" in entry.kinds])
    it = Figure(entry, owner=friend)
    t.tell(
        t.doing(hero, "break", it, at(c.pick(("room", "garden", "classroom", "park")))),
        c.pick(("", "one day", "yesterday")),
    )
    t.tell(t.being(friend, "angry", very=c.chance(0.4)))
    if c.chance(0.4):
        t.joined(t.being(it, "old"), "so", t.doing(hero, "fix", it, negative=True, modality="can"))
        t.tell(
            t.doing(
                hero,
                "buy",
                Figure(entry, c.pick(suiting(entry, ("new",)) or adjectives_for(entry))),
                at("department store"),
            ),
            "after that",
        )
    else:
        t.tell(t.doing(hero, "fix", it), c.pick(("the next day", "after that")))
        t.tell(t.doing(hero, "return", it, to=friend))
    t.tell(t.being(friend, "happy"))
    return (entry.english,)


@plot
def garden(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A plant grows and is admired."""
    hero, friend = people(c)
    plant = thing(c, noun(c.pick(("flower", "rose"))), 0.2)
    t.tell(t.doing(hero, "plant", plant, at("garden", "に")), c.pick(("", "one day")))
    if c.chance(0.6):
        t.tell(t.being(plant, "pretty", very=c.chance(0.5)), "soon")
    t.tell(t.doing(friend, "see", plant, at("garden")), c.pick(("after that", "the next day", "then")))
    t.because(t.doing(friend, "draw", Figure(noun("picture"))), plant, "beautiful")
    t.tell(t.doing(hero, "give", plant, to=friend), c.pick(("after that", "then")))
    if c.chance(0.6):
        t.tell(t.being(friend, "happy", very=c.chance(0.3)))
    return (plant.entry.english, plant.adjective.english if plant.adjective else "")


HUNTS = (
    ("cat", "mouse"),
    ("dog", "rabbit"),
    ("dog", "duck"),
    ("kitten", "mouse"),
    ("puppy", "rabbit"),
    ("dog", "cat"),
    ("cat", "duck"),
)


@plot
def chase(t: Teller, c: Chooser) -> tuple[str, ...]:
    """One animal after another; the small one gets away."""
    names = c.pick(HUNTS)
    hunter, prey = (thing(c, noun(name), 0.4, COLORS) for name in names)
    place = c.pick(("garden", "park", "house", "kitchen"))
    t.tell(t.doing(hunter, "chase", prey, at(place)), c.pick(("", "one day", "yesterday")))
    t.tell(t.doing(prey, "hide", None, spot(c, "に", ("tree",) if place in ("garden", "park") else ("table", "chair"))))
    if c.chance(0.5):
        t.tell(t.doing(hunter, "look for", prey))
    if c.chance(0.6):
        t.because(t.doing(hunter, "find", prey, negative=True, modality="can"), prey, "small")
    else:
        t.tell(t.doing(hunter, "find", prey, negative=True, modality="can"))
    t.joined(t.being(hunter, "tired"), "so", t.doing(hunter, "sleep"))
    if c.chance(0.6):
        meal = Figure(noun(c.pick(("cheese", "carrot", "bread", "apple"))))
        t.tell(t.doing(prey, "eat", meal, at(c.pick(("kitchen", "garden")))), "then")
    return names


@plot
def homework(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Something must be learnt, it is hard, and a friend helps."""
    hero, friend = people(c)
    entry = c.pick(nouns("study", "sport", "instrument"))
    subject = Figure(entry)
    subject.introduced = "instrument" in entry.kinds
    action = "study" if "study" in entry.kinds else "practice"
    t.tell(t.doing(hero, action, subject, modality="have to"), c.pick(("", "one day", "yesterday")))
    hard = suiting(entry, ("difficult", "easy", "interesting"))
    if hard:
        first = c.pick(hard).english
        if first == "difficult":
            t.tell(t.being(subject, first, very=c.chance(0.5)))
        else:
            t.joined(t.being(subject, first, very=c.chance(0.3)), "but", t.being(hero, c.pick(("busy", "tired"))))
    t.because(t.doing(friend, "help", hero), friend, c.pick(("kind", "gentle", "smart")))
    place = c.pick(("library", "classroom", "park", "room"))
    t.tell(t.doing(hero, action, subject, at(place)), c.pick(("then", "after that", "that evening")))
    if c.chance(0.6):
        t.tell(t.being(hero, c.pick(("happy", "tired")), very=c.chance(0.3)))
    return (entry.english, place)


RACES = (("rabbit", "turtle"), ("horse", "pig"), ("dog", "duck"), ("fox", "frog"), ("cat", "turtle"))


@plot
def race(t: Teller, c: Chooser) -> tuple[str, ...]:
    """The fast one rests, the slow one arrives."""
    names = c.pick(RACES)
    fast, slow = (thing(c, noun(name), 0.4, COLORS) for name in names)
    goal = c.pick(("river", "lake", "forest", "mountain", "village", "sea"))
    t.tell(t.doing(fast, "meet", slow, at(c.pick(("forest", "farm", "park")))), c.pick(("", "one day")))
    t.tell(t.comparing(fast, c.pick(("big", "strong")), slow))
    t.tell(t.doing(fast, "run"), "then")
    t.because(t.doing(fast, "sleep", None, spot(c, landmarks=("tree",))), fast, "tired")
    t.tell(t.doing(slow, "sleep", negative=True))
    t.tell(t.doing(slow, "go to", toward=goal), "at last")
    if c.chance(0.7):
        t.tell(t.being(slow, "happy", very=c.chance(0.5)))
    return (*names, goal)


@plot
def climbing(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A thirsty climber meets somebody with a drink."""
    hero, friend = people(c)
    drink = Figure(noun(c.pick(("water", "tea", "milk", "juice", "coffee", "cocoa"))))
    mountain = Figure(noun("mountain"), None)
    mountain.introduced = True
    t.tell(t.doing(hero, "climb", mountain), c.pick(("", "one day", "yesterday")))
    t.joined(t.being(mountain, "high", very=c.chance(0.3)), "and", t.being(hero, "thirsty"))
    t.tell(t.doing(hero, "meet", friend), c.pick(("soon", "then")))
    t.joined(t.being(friend, c.pick(("kind", "gentle"))), "so", t.doing(friend, "give", drink, to=hero))
    t.because(
        t.doing(hero, "drink", drink),
        drink,
        c.pick(("delicious", "cold")) if drink.entry.english in ("water", "milk", "juice") else "delicious",
    )
    if c.chance(0.5):
        t.tell(t.being(hero, "happy"))
    return (drink.entry.english,)
