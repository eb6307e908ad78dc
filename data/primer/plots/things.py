"""Plots about things that are lost and found, bought, packed, dropped, lent or repaired."""

from __future__ import annotations

from data.primer.characters import Figure
from data.primer.grammar.choice import Chooser
from data.primer.grammar.selectional_restrictions import FEMALE, PRICES
from data.primer.lexicon import SCALES, Noun, adjective, adjectives_for, is_a, noun, nouns, suiting
from data.primer.plots.casting import FINDABLE, INDOORS, VISIBLE, apology, at, either, known, people, plot, spot, thing
from data.primer.storyteller import NAMED, Teller


@plot
def lost_and_found(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody loses a thing and looks for it in several places; the owner or a friend finds it."""
    hero, friend = people(t, c)
    it = thing(c, noun(c.pick(FINDABLE)))
    if c.chance(0.5):
        t.tell(t.doing(hero, "have", it))
        t.tell(t.doing(hero, "lose", it), "one day", "yesterday")
    else:
        t.tell(t.doing(hero, "lose", it), "", "one day", "yesterday")
        if c.chance(0.4):
            t.tell(t.being(hero, c.pick(("angry", "sad"))))
    first, second = c.pair(INDOORS)
    t.tell(t.doing(hero, "look for", it, at(first)))
    if c.chance(0.5):
        t.tell(t.doing(hero, "find", it, negative=True, modality="can"))
    else:
        t.tell(t.doing(hero, "look for", it, at(second)), "then")
    outcome = c.pick(("himself", "friend", "thanks", "thanks"))
    if outcome == "himself":
        t.tell(t.doing(hero, "find", it, spot(c)), "at last")
        t.tell(t.being(hero, "happy", very=c.chance(0.3)))
    elif outcome == "friend":
        t.tell(t.doing(friend, "find", it, spot(c)), "", "soon", "at last")
        why, rival, state = either(c, (friend, "kind"), (hero, "sad"))
        t.because(t.doing(friend, "return", it, to=hero), t.being(t.meant(why, rival), state))
    else:
        t.tell(t.doing(friend, "help", hero), "then", "after that")
        if c.chance(0.5):
            t.because(t.doing(hero, "thank", friend), t.doing(t.by_pronoun(friend), "find", it, favor=True))
        else:
            t.because(t.doing(hero, "thank", friend), t.being(t.by_pronoun(friend), "kind"))
    return (it.entry.english, first)


SHOPS = (
    ("bakery", "baked"),
    ("toy store", "toy"),
    ("department store", "top"),
    ("department store", "gift"),
    ("bookstore", "book"),
    ("supermarket", "fruit"),
    ("supermarket", "tart"),
)


TASTES = frozenset(("delicious", "sweet", "acidic", "sour", "bitter", "old"))
"""Qualities that are not visible in a shop."""


@plot
def shopping(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody prefers one of two things in a shop, buys it, and takes it home or uses it."""
    hero, friend = people(t, c)
    shop, kind = c.pick(SHOPS)
    options = [entry for entry in nouns(kind) if entry.plural and entry.english not in ("toy", "strawberry")]
    options = [entry for entry in options if "plant" not in entry.kinds and entry.kinds & {"goods", "food"}]
    first, second = (Figure(entry) for entry in c.pair(options))
    scale = next(scale for scale in SCALES if scale.kind in (first.entry.kinds & second.entry.kinds | {"gift"}))
    how = c.pick(("more", "less", "too", "too"))
    names = tuple(name for name in (scale.good if how == "more" else scale.bad) if name not in TASTES)
    assert isinstance(first.entry, Noun)
    assert isinstance(second.entry, Noun)
    fitting = [attribute for attribute in suiting(first.entry, names) if attribute in suiting(second.entry, names)]
    if not fitting:
        return shopping(t, c)
    quality = c.pick(fitting).english
    t.tell(t.doing(hero, "go to", toward=shop), "", "one day", "yesterday")
    t.tell(t.doing_to_both(hero, "see", *((first, second) if c.chance(0.5) else (second, first)), at(shop)))
    if c.chance(0.4) and "food" in first.entry.kinds:
        t.tell(t.being(hero, "hungry"))
    elif c.chance(0.4) and quality not in PRICES:
        t.tell(t.being(second, "expensive"))
    t.preferring(hero, first, second, quality, how)
    t.tell(t.doing(hero, "buy", first))
    draw = c.chance(0.5)
    if "food" in first.entry.kinds and draw:
        t.tell(t.doing(hero, "eat", first, at(c.pick(("park", "kitchen", "garden")))), "", "then")
    elif "gift" in first.entry.kinds and draw:
        t.tell(t.doing(hero, "give", first, to=friend), "", "then", "the next day")
        t.tell(t.being(friend, "happy"))
    return (first.entry.english, second.entry.english)


ERRANDS = (
    ("read", "newspaper magazine book novel"),
    ("eat", "sandwich apple hamburger cookie banana"),
    ("drink", "juice tea coffee cocoa milk"),
)
"""Things to buy, with the verb of their use."""


@plot
def errands(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody buys two things; a later action identifies the antecedent of a pronoun."""
    hero, friend = people(t, c)
    (action, some), (other_action, others) = c.pair(ERRANDS)
    first, second = thing(c, noun(c.pick(some.split())), 0.6), thing(c, noun(c.pick(others.split())), 0.6)
    place = c.pick(("station", "department store", "supermarket"))
    t.tell(t.doing(hero, "go to", toward=place), "", "one day", "yesterday")
    t.tell(t.doing_to_both(hero, "buy", *((first, second) if c.chance(0.5) else (second, first))))
    t.tell(
        t.doing(hero, action, t.meant(first, second, NAMED), at(c.pick(("park", "garden")))), "", "then", "after that"
    )
    if c.chance(0.5):
        quality = {"read": "interesting", "eat": "delicious", "drink": "delicious"}[action]
        t.tell(t.being(first, quality, very=quality == "interesting" and c.chance(0.4)))
    elif c.chance(0.5):
        t.tell(t.being(hero, "happy"))
    t.tell(t.doing(hero, "show" if other_action == "read" else "give", second, to=friend), "that evening", "soon")
    return (first.entry.english, second.entry.english)


PACKED = ("ball", "doll", "toy", "book", "dictionary", "camera", "radio", "clock", "umbrella", "vase", "sweater", "hat")
"""Things that may or may not fit into a box or a bag."""


@plot
def packing(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A thing does not fit into a container: one of them is too big or too small."""
    hero, friend = people(t, c)
    it, into = thing(c, noun(c.pick(PACKED)), 0.5), thing(c, noun(c.pick(("box", "bag"))), 0.5)
    t.tell(t.doing(hero, "have", it))
    action = c.pick(("give", "lend"))
    t.tell(t.doing(friend, action, into, to=hero), "yesterday", "one day")
    culprit, other, quality = either(c, (it, "big"), (into, "small"))
    main = t.doing(hero, "put", it, t.into(into, "in"), negative=True, modality="can")
    t.because(main, t.being(t.meant(culprit, other), quality, too=True))
    if action == "lend":
        t.tell(t.doing(hero, "return", into, to=friend), "the next day", "that evening")
    else:
        why, rival, state = either(c, (friend, "kind"), (hero, "having trouble"))
        t.because(t.doing(friend, "help", hero), t.being(t.meant(why, rival), state))
    return (it.entry.english, into.entry.english)


BLUNT = ("book", "dictionary", "ball", "radio", "clock", "camera", "box")
"""Things that break a plate by falling on it."""


@plot
def dropped(t: Teller, c: Chooser) -> tuple[str, ...]:
    """One thing falls and breaks another; an apology and a replacement follow."""
    hero, friend = people(t, c)
    brittle = Figure(c.pick(nouns("fragile")), owner=friend)
    t.tell(t.doing(hero, "visit", friend), "", "one day", "yesterday")
    if c.chance(0.5):
        other = known("floor")
        t.tell(t.doing(hero, "drop", brittle, t.into(other, "on")))
    else:
        other = Figure(noun(c.pick(BLUNT)))
        t.tell(t.doing(hero, "drop", other, t.onto(brittle)))
    t.tell(t.happening(t.meant(brittle, other, NAMED), "break"))
    state = apology(t, c, hero, friend, "break", brittle)
    spare = Figure(brittle.entry, adjective("new"))
    t.tell(t.doing(hero, "buy", spare, at("department store")), "after that", "the next day")
    t.tell(t.doing(hero, "give", spare, to=friend))
    if c.chance(0.5):
        t.tell(t.being(friend, "happy"))
    return (brittle.entry.english, state)


@plot
def present(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody chooses a present for a friend for a reason."""
    hero, friend = people(t, c)
    good = ("cheap", "pretty", "cute", "useful", "beautiful")
    entry = c.pick([entry for entry in nouns("gift") if suiting(entry, good)])
    if FEMALE & entry.kinds and friend.pronoun != "she":
        return present(t, c)
    gift = thing(c, entry, 0.5, VISIBLE - {"old"})
    shop = "flower shop" if "plant" in entry.kinds else "bookstore" if "book" in entry.kinds else "department store"
    t.tell(t.doing(hero, "meet", friend, at(c.pick(("park", "library", "restaurant")))), "", "one day", "yesterday")
    t.tell(t.doing(hero, "go to", toward=shop), "after that", "the next day")
    quality = c.pick(suiting(entry, good))
    dear = adjective("expensive") in adjectives_for(entry) and quality.english != "cheap"
    if c.chance(0.4) and dear:
        t.because(t.doing(hero, "choose", gift), t.being(t.by_pronoun(gift), quality.english))
        t.joined(t.being(gift, "expensive"), "but", t.doing(hero, "buy", gift))
    else:
        t.because(t.doing(hero, "buy", gift), t.being(t.by_pronoun(gift), quality.english))
    lead = c.pick(("", "that evening"))
    if c.chance(0.7):
        why, rival, state = either(c, (hero, "kind"), (friend, "sad"))
        t.because(t.doing(hero, "give", gift, to=friend), t.being(t.meant(why, rival), state))
        t.tell(t.doing(friend, "thank", hero))
    else:
        t.tell(t.doing(hero, "give", gift, to=friend), lead)
        t.tell(t.being(friend, "happy", very=c.chance(0.4)))
    if c.chance(0.4) and "top" in entry.kinds:
        t.tell(t.doing(friend, "wear", gift), "the next day")
    return (entry.english, quality.english)


@plot
def borrowed(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody lends a book or a tool; the friend uses and returns it."""
    owner, reader = people(t, c)
    entry = c.pick([entry for entry in nouns("book", "tool") if "dishes" not in entry.kinds])
    it = thing(c, entry)
    action = "use" if "tool" in entry.kinds else "read"
    t.tell(t.doing(owner, "have" if "goods" in entry.kinds else "buy", it))
    lent = t.doing(owner, "lend", it, to=reader)
    if c.chance(0.5):
        t.because(lent, t.being(t.meant(owner, reader), "kind"))
    else:
        t.because(lent, t.doing(t.meant(reader, owner), action, it, modality="want"))
    good = suiting(entry, ("interesting", "useful", "light"))
    bad = suiting(entry, ("difficult", "heavy", "boring"))
    if bad and c.chance(0.3):
        t.because(t.doing(reader, action, it, negative=True), t.being(t.by_pronoun(it), c.pick(bad).english))
    else:
        where = at(c.pick(("park", "library", "room", "garden")))
        t.tell(t.doing(reader, action, it, where), "that evening", "the next day")
        if good and c.chance(0.6):
            t.tell(t.being(it, c.pick(good).english, very=c.chance(0.4)))
    t.tell(t.doing(reader, "return", it, to=owner), "soon", "after that")
    if c.chance(0.4):
        t.tell(t.doing(t.by_pronoun(reader), "thank", owner))
    return (entry.english, action)


@plot
def broken(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A friend's thing breaks and somebody repairs it."""
    hero, friend = people(t, c)
    goods = [entry for entry in nouns("machine", "toy") if "goods" in entry.kinds]
    entry = c.pick([entry for entry in goods if not is_a(entry, ("drive", "ball"))])
    it = Figure(entry, owner=friend)
    places = ("garden", "park") if "ride" in entry.kinds else ("room", "classroom", "garden", "park")
    t.tell(t.doing(hero, "break", it, at(c.pick(places))), "", "one day", "yesterday")
    state = apology(t, c, hero, friend, "break", it)
    if c.chance(0.4):
        t.joined(t.being(it, "old"), "so", t.doing(hero, "fix", it, negative=True, modality="can"))
        spare = Figure(entry, adjective("new"))
        t.tell(t.doing(hero, "buy", spare, at("department store")), "after that")
        t.tell(t.doing(hero, "give", spare, to=friend))
    else:
        t.tell(t.doing(hero, "fix", it), "the next day", "after that")
        t.tell(t.doing(hero, "return", it, to=friend))
    t.tell(t.being(friend, "happy"))
    return (entry.english, state)
