"""Plots about animals, plants and appetite: chased, run away, raced, grown, cooked."""

from __future__ import annotations

from data.primer.choice import Chooser
from data.primer.lexicon import noun
from data.primer.plots.casting import COLORS, at, people, plot, spot, thing
from data.primer.telling import Figure, Teller

PETS = ("dog", "cat", "puppy", "kitten", "rabbit", "hamster", "turtle", "bird")


@plot
def runaway(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A pet goes off by itself and is looked for."""
    hero, friend = people(c)
    pet = thing(c, noun(c.pick(PETS)))
    place = c.pick(("park", "forest", "river", "garden"))
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
        t.joined(t.being(pet, c.pick(("tired", "hungry"))), "but", t.being(hero, "happy"))
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
        t.doing(hero, "go to", toward="supermarket", again=True),
        c.pick(("", "one day", "yesterday")),
    )
    t.tell(t.doing(hero, "buy", Figure(bought, plural=True)))
    t.tell(t.doing(hero, action, dish, at("kitchen")), c.pick(("then", "after that")))
    if c.chance(0.5):
        t.tell(t.being(dish, "delicious"))
    if c.chance(0.7):
        t.tell(t.doing(friend, "eat", dish, modality="want"))
        if "sweets" in entry.kinds or "dish" in entry.kinds:
            t.joined(t.being(hero, "kind"), "so", t.doing(hero, "give", dish, to=friend, again=True))
    else:
        t.because(t.doing(hero, "eat", dish), hero, "hungry")
        t.tell(t.doing(hero, "sleep"), "then")
    return (entry.english, bought.english)


@plot
def garden(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A plant grows and is admired."""
    hero, friend = people(c)
    plant = thing(c, noun(c.pick(("flower", "rose", "tree"))), 0.2, COLORS | {"small"})
    t.tell(t.doing(hero, "plant", plant, at("garden", "に")), c.pick(("", "one day")))
    if plant.entry.english == "tree" or c.chance(0.6):
        t.tell(
            t.becoming(plant, "big" if plant.entry.english == "tree" else c.pick(("pretty", "beautiful"))),
            c.pick(("soon", "at last")),
        )
    t.tell(t.doing(friend, "see", plant, at("garden")), c.pick(("", "the next day")))
    t.because(t.doing(friend, "draw", plant), plant, "big" if plant.entry.english == "tree" else "beautiful")
    if plant.entry.english != "tree":
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
    t.joined(t.being(hunter, "tired"), "so", t.doing(hunter, "sleep", again=True))
    if c.chance(0.6):
        meal = Figure(noun(c.pick(("cheese", "carrot", "bread", "apple"))))
        t.tell(t.doing(prey, "eat", meal, at(c.pick(("kitchen", "garden")))), "then")
    return names


RACES = (("rabbit", "turtle"), ("horse", "pig"), ("dog", "duck"), ("fox", "frog"), ("cat", "turtle"))


@plot
def race(t: Teller, c: Chooser) -> tuple[str, ...]:
    """The fast one rests, the slow one arrives."""
    names = c.pick(RACES)
    fast, slow = (thing(c, noun(name), 0.4, COLORS) for name in names)
    goal = c.pick(("river", "lake", "mountain", "village"))
    place = c.pick(("forest", "farm", "park"))
    t.tell(t.doing(fast, "meet", slow, at(place)), c.pick(("", "one day")))
    t.tell(t.comparing(fast, "fast", slow))
    t.tell(t.doing(fast, "go to", toward=goal, modality="want"))
    t.tell(t.doing(fast, "run", None, at(place)), "then")
    t.because(t.doing(fast, "sleep", None, spot(c, landmarks=("tree",))), fast, "tired")
    t.tell(t.doing(slow, "sleep", negative=True))
    t.tell(t.doing(slow, "arrive at", toward=goal), "at last")
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
    t.joined(t.being(friend, c.pick(("kind", "gentle"))), "so", t.doing(friend, "give", drink, to=hero, again=True))
    t.because(
        t.doing(hero, "drink", drink),
        drink,
        c.pick(("delicious", "cold")) if drink.entry.english in ("water", "milk", "juice") else "delicious",
    )
    if c.chance(0.5):
        t.tell(t.being(hero, "happy"))
    return (drink.entry.english,)
