"""Plots about animals, plants and food: a chase, a lost pet, a race, gardening, cooking."""

from __future__ import annotations

from data.primer.characters import Figure
from data.primer.grammar.choice import Chooser
from data.primer.lexicon import noun
from data.primer.plots.casting import COLORS, at, either, known, people, plot, spot, thing
from data.primer.storyteller import NAMED, Teller

PETS = ("dog", "cat", "puppy", "kitten", "rabbit", "hamster", "turtle", "bird")


@plot
def runaway(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A pet runs away and its owner looks for it."""
    hero, friend = people(t, c)
    pet = thing(c, noun(c.pick(PETS)))
    place = c.pick(("park", "forest", "river", "garden"))
    t.tell(t.doing(hero, "have", pet))
    if c.chance(0.4):
        t.tell(t.being(pet, "cute", very=c.chance(0.3)))
    hides, where = place == "garden", c.pick(("under", "behind"))
    hidden = spot(c, "に", ("tree",), "a", where)
    gone = t.doing(pet, "hide", None, hidden) if hides else t.doing(pet, "go to", toward=place)
    t.tell(gone, "one day")
    t.tell(t.doing(hero, "look for", pet, at(c.pick(("house", "room", "kitchen")))))
    if c.chance(0.5):
        t.tell(t.doing(hero, "find", pet, negative=True, modality="can"))
    if c.chance(0.5):
        finder = friend
        why, rival, state = either(c, (friend, "kind"), (hero, "sad"))
        t.because(t.doing(friend, "help", hero), t.being(t.meant(why, rival), state))
    else:
        finder = hero
    t.tell(t.doing(finder, "find", pet, spot(c, "で", ("tree",), "the" if hides else "a", where)), "at last", "soon")
    draw = c.pick(("both", "sleeping", "thanks"))
    if draw == "thanks" and finder is friend:
        t.because(t.doing(hero, "thank", friend), t.doing(t.by_pronoun(friend), "find", pet, favor=True))
    elif draw == "sleeping":
        t.tell(t.doing(pet, "sleep", modality="progressive"))
    else:
        t.joined(t.being(pet, c.pick(("tired", "hungry"))), "but", t.being(hero, "happy"))
    return (pet.entry.english, place)


INGREDIENTS = {
    "cake": "egg strawberry lemon",
    "pie": "apple pumpkin peach",
    "pancake": "egg banana",
    "sandwich": "tomato cucumber",
    "hamburger": "onion",
    "pizza": "tomato",
    "salad": "carrot cucumber",
}
RECIPES = [(dish, bought) for dish, ingredients in INGREDIENTS.items() for bought in ingredients.split()]


@plot
def cooking(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A hungry person cooks, and a friend shares the meal."""
    hero, friend = people(t, c)
    entry, bought = (noun(name) for name in c.pick(RECIPES))
    action = "bake" if "baked" in entry.kinds else "make"
    dish = Figure(entry)
    going = t.being(hero, "hungry"), "so", t.doing(hero, "go to", toward="supermarket", again=True)
    t.joined(*going, c.pick(("", "one day", "yesterday")))
    t.tell(t.doing(hero, "buy", Figure(bought, plural=True)))
    t.tell(t.doing(hero, action, dish, at("kitchen")), "then", "after that")
    if c.chance(0.5):
        t.tell(t.being(dish, "delicious"))
    if c.chance(0.7):
        if c.chance(0.5):
            t.tell(t.happening(friend, "come"))
            statement = t.doing(hero, "give", dish, to=friend)
            t.because(statement, t.doing(t.meant(friend, hero), "eat", dish, modality="want"))
        else:
            t.tell(t.doing(friend, "eat", dish, modality="want"))
            t.because(t.doing(hero, "give", dish, to=friend), t.being(t.meant(hero, friend), "kind"))
    else:
        t.because(t.doing(hero, "eat", dish), t.being(t.by_pronoun(hero), "hungry"))
        t.tell(t.doing(hero, "sleep"), "then")
    return (entry.english, bought.english)


@plot
def garden(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody grows a plant and others admire it."""
    hero, friend = people(t, c)
    plant = thing(c, noun(c.pick(("flower", "rose"))), 0.2, COLORS | {"small"})
    t.tell(t.doing(hero, "plant", plant, at("garden", "に")), "", "one day")
    if c.chance(0.6):
        t.tell(t.becoming(plant, c.pick(("pretty", "beautiful"))), "soon", "at last")
    t.tell(t.doing(friend, "see", plant, at("garden")), "", "the next day")
    t.because(t.doing(friend, "draw", plant), t.being(t.by_pronoun(plant), "beautiful"))
    why, rival, state = either(c, (hero, "kind"), (friend, "sad"))
    t.because(t.doing(hero, "give", plant, to=friend), t.being(t.meant(why, rival), state))
    if c.chance(0.6):
        t.tell(t.being(friend, "happy", very=c.chance(0.3)))
    return (plant.entry.english, plant.adjective.english if plant.adjective else "")


HUNTS = ("cat mouse", "dog rabbit", "dog duck", "kitten mouse", "puppy rabbit", "dog cat", "cat duck")
"""Hunter and prey."""
STOLEN = {
    "mouse": ("cheese", "bread", "chocolate"),
    "rabbit": ("carrot", "apple", "bread"),
    "duck": ("bread", "rice"),
    "cat": ("fish", "meat", "cheese"),
}
"""Food of each chased animal."""


@plot
def chase(t: Teller, c: Chooser) -> tuple[str, ...]:
    """One animal chases another; the smaller one escapes."""
    names = c.pick(HUNTS).split()
    hunter, prey = (thing(c, noun(name), 0.4, COLORS) for name in names)
    place = c.pick(("garden", "park", "house", "kitchen"))
    lead = c.pick(("", "one day", "yesterday"))
    outcome = c.pick(("why", "fast", "slow", "hidden"))
    stolen = c.pick(STOLEN[prey.entry.english])
    if outcome == "why":
        meal = Figure(noun(stolen))
        t.tell(t.doing(hunter, "find", meal, at(place)), lead)
        chased = t.doing(hunter, "chase", prey, at(place))
        if c.chance(0.5):
            t.because(chased, t.being(t.meant(hunter, prey), "hungry"))
        else:
            t.because(chased, t.doing(t.meant(prey, hunter), "eat", meal))
    elif outcome == "hidden":
        t.tell(t.doing(hunter, "chase", prey, at(place)), lead)
    else:
        chased = t.doing(hunter, "chase", prey, at(place))
        culprit, other = (prey, hunter) if outcome == "fast" else (hunter, prey)
        t.joined(chased, "but", t.being(t.meant(culprit, other, NAMED), outcome, too=True), lead)
    outdoors = place in ("garden", "park")
    shelter = spot(c, "に", ("tree",) if outdoors else ("table", "chair"), "a" if outdoors else "the")
    t.tell(t.doing(prey, "hide", None, shelter))
    if c.chance(0.5):
        t.tell(t.doing(hunter, "look for", prey))
    failed = t.doing(hunter, "find", prey, negative=True, modality="can")
    why, rival, state = either(c, (prey, "small"), (hunter, "tired"))
    t.because(failed, t.being(t.meant(why, rival), state))
    if c.chance(0.6):
        meal = Figure(noun(c.pick([food for food in STOLEN[prey.entry.english] if food != stolen])))
        t.tell(t.doing(prey, "eat", meal, at("park" if place == "park" else c.pick(("kitchen", "garden")))), "then")
    else:
        t.tell(t.doing(hunter, "sleep"), "then")
    return (*names, outcome)


RACES = (("rabbit", "turtle"), ("horse", "pig"), ("dog", "duck"), ("fox", "frog"), ("cat", "turtle"))


@plot
def race(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A race in which the fast animal rests and the slow animal arrives first."""
    names = c.pick(RACES)
    fast, slow = (thing(c, noun(name), 0.4, COLORS) for name in names)
    goal = c.pick(("river", "lake", "mountain", "village"))
    place = c.pick(("forest", "farm", "park"))
    first, other = (fast, slow) if c.chance(0.5) else (slow, fast)
    t.tell(t.doing(first, "meet", other, at(place)), "", "one day")
    t.tell(t.comparing(fast, "fast", slow))
    t.joined(t.doing(fast, "go to", toward=goal, modality="want"), "so", t.doing(fast, "run", again=True))
    if c.chance(0.5):
        slept = t.doing(fast, "sleep", None, spot(c, landmarks=("tree",), opening="a"))
        t.because(slept, t.being(t.by_pronoun(fast), "tired"))
        t.tell(t.doing(slow, "sleep", negative=True))
    else:
        waited = t.doing(fast, "wait for", slow)
        why, rival, state = either(c, (slow, "slow"), (fast, "kind"))
        t.because(waited, t.being(t.meant(why, rival), state))
        t.tell(t.doing(fast, "sleep", None, spot(c, landmarks=("tree",), opening="a")), "then")
    t.tell(t.doing(slow, "arrive at", toward=goal), "at last")
    if c.chance(0.7):
        t.tell(t.being(slow, "happy", very=c.chance(0.5)))
    return (*names, goal)


@plot
def climbing(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A thirsty climber meets somebody with a drink."""
    hero, friend = people(t, c)
    drink = Figure(noun(c.pick(("water", "tea", "milk", "juice", "coffee", "cocoa"))))
    mountain = known("mountain")
    t.tell(t.doing(hero, "climb", mountain), "", "one day", "yesterday")
    t.tell(t.being(mountain, "high", very=c.chance(0.3)))
    t.tell(t.being(hero, "thirsty"))
    t.tell(t.doing(hero, "meet", friend), "soon", "then")
    why, rival, state = either(c, (friend, "kind"), (hero, "tired"))
    t.because(t.doing(friend, "give", drink, to=hero), t.being(t.meant(why, rival), state))
    if drink.entry.english in ("water", "milk", "juice") and c.chance(0.5):
        t.because(t.doing(hero, "drink", drink), t.being(t.by_pronoun(drink), "cold"))
    else:
        t.because(t.doing(hero, "drink", drink), t.being(t.by_pronoun(hero), "thirsty"))
    if c.chance(0.5):
        t.tell(t.being(hero, "happy"))
    return (drink.entry.english,)
