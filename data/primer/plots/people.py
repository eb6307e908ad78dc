"""Plots about people: learning, waiting, illness, quarrels and reconciliation."""

from __future__ import annotations

from data.primer.characters import Figure
from data.primer.grammar.choice import Chooser
from data.primer.lexicon import noun, nouns, suiting
from data.primer.plots.casting import apology, at, either, people, plot, thing
from data.primer.storyteller import Teller

PRACTICE = {"study": ("library", "classroom", "room"), "sport": ("park", "school"), "instrument": ("room", "classroom")}
"""Places of learning, by subject."""


@plot
def homework(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody has to learn something difficult, and a friend helps."""
    hero, friend = people(t, c)
    entry = c.pick(nouns("study", "sport", "instrument"))
    subject = Figure(entry)
    subject.introduced = "instrument" in entry.kinds
    action = "study" if "study" in entry.kinds else "practice"
    t.tell(t.doing(hero, action, subject, modality="have to"), "", "one day", "yesterday")
    hard = suiting(entry, ("difficult", "easy", "interesting"))
    if hard:
        first = c.pick(hard).english
        if first == "difficult":
            t.tell(t.being(subject, first, very=c.chance(0.5)))
        else:
            t.joined(t.being(subject, first, very=c.chance(0.3)), "but", t.being(hero, c.pick(("busy", "tired"))))
    why, rival, quality = either(c, (friend, "kind"), (hero, "having trouble"))
    t.because(t.doing(friend, "help", hero), t.being(t.meant(why, rival), quality))
    place = c.pick(PRACTICE[next(kind for kind in PRACTICE if kind in entry.kinds)])
    t.tell(t.doing(hero, action, subject, at(place)), "then", "after that", "that evening")
    if c.chance(0.6):
        t.tell(t.being(hero, "happy", very=c.chance(0.3)))
    return (entry.english, place, quality)


@plot
def waiting(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody waits for a friend, who comes or does not."""
    hero, friend = people(t, c)
    place = c.pick(("station", "park", "library", "school"))
    goal = c.pick(("zoo", "museum", "movie theater", "lake", "pool"))
    t.tell(t.doing(hero, "go to", toward=goal, modality="want"), "", "one day", "yesterday")
    t.tell(t.doing(hero, "wait for", friend, at(place)))
    outcome = c.pick(("absent", "patient", "comes", "comes"))
    if outcome == "absent":
        busy = c.pick(("busy", "sick", "tired"))
        t.because(t.doing(friend, "come", negative=True), t.being(t.by_pronoun(friend), busy))
        t.tell(t.doing(hero, "call", friend), "then", "that evening")
        t.tell(t.doing(t.by_pronoun(friend), "apologize to", hero))
    elif outcome == "patient":
        t.joined(t.being(hero, "tired"), "but", t.doing(hero, "wait for", friend, again=True))
        t.tell(t.happening(friend, "come"), "at last", "soon")
        t.tell(t.doing(friend, "thank", hero))
    else:
        t.tell(t.happening(friend, "come"), "at last")
        why, rival, state = either(c, (friend, "late"), (hero, "angry"))
        t.because(t.doing(friend, "apologize to", hero), t.being(t.meant(why, rival), state))
        t.tell(t.doing(hero, "go to", toward=goal), "after that", "then")
        t.tell(t.being(hero, "happy", very=c.chance(0.4)))
    return (place, goal, outcome)


@plot
def ill(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A friend visits somebody who is ill and brings something."""
    hero, friend = people(t, c)
    shops = {"fruit": "supermarket", "book": "bookstore", "plant": "flower shop"}
    while (entry := c.pick(nouns(*shops))).english in ("lemon", "tree", "dictionary"):
        pass
    gift = thing(c, entry, 0.6)
    shop = next(shop for kind, shop in shops.items() if kind in entry.kinds)
    if c.chance(0.5):
        t.tell(t.doing(hero, "call", friend), "", "one day", "yesterday")
        t.tell(t.being(friend, "sick"))
    else:
        t.tell(t.being(friend, "sick"), "", "yesterday")
    t.tell(t.doing(hero, "buy", gift, at(shop)), "", "the next day")
    kind = c.chance(0.5)
    visit = t.doing(hero, "visit", friend)
    t.because(visit, t.being(t.meant(hero, friend), "kind") if kind else t.being(t.meant(friend, hero), "sick"))
    t.tell(t.doing(t.by_pronoun(hero), "give", gift, to=friend))
    action = {"supermarket": "eat", "bookstore": "read"}.get(shop)
    if action:
        t.tell(t.doing(friend, action, gift), "soon", "that evening", "")
    t.tell(t.doing(friend, "thank", hero) if c.chance(0.5) else t.being(friend, "happy", very=c.chance(0.3)))
    return (entry.english, "kind" if kind else "sick")


@plot
def quarrel(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody hides a thing for fun and apologises."""
    hero, friend = people(t, c)
    it = Figure(noun(c.pick("hat bag ball notebook pen umbrella key diary doll camera".split())), owner=friend)
    first, second = c.pair((c.pick(("room", "classroom", "kitchen")), "garden", "library", "park"))
    t.tell(t.doing(hero, "hide", it, at(first, "に", 8)), "", "one day", "yesterday")
    t.tell(t.doing(friend, "look for", it, at(second)))
    t.tell(t.doing(t.by_pronoun(friend), "find", it, negative=True, modality="can"))
    state = apology(t, c, hero, friend, "hide", it)
    t.tell(t.doing(t.by_pronoun(hero), "return", it, to=friend), "", "then")
    if c.chance(0.5):
        t.tell(t.being(friend, "happy"))
    return (it.entry.english, first, state)


LOADS = ("box", "bag", "desk", "chair", "piano", "table")


@plot
def carrying(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Two people carry something heavy."""
    hero, friend = people(t, c)
    load = thing(c, noun(c.pick(LOADS)))
    t.tell(t.doing(hero, "carry", load, modality="have to"), "", "one day", "yesterday")
    failed = t.doing(hero, "carry", load, negative=True, modality="can")
    if c.chance(0.5):
        t.because(failed, t.being(t.by_pronoun(load), "heavy", too=True))
    else:
        t.because(failed, t.being(t.by_pronoun(hero), c.pick(("tired", "sick"))))
    t.tell(t.happening(friend, "come"), "then", "soon")
    why, rival, state = either(c, (friend, "kind"), (hero, "having trouble"))
    t.because(t.doing(friend, "help", hero), t.being(t.meant(why, rival), state))
    t.tell(t.doing(hero, "thank", friend) if c.chance(0.6) else t.being(hero, "happy"))
    return (load.entry.english, state)
