"""Plots about things: lost and found, bought, given, lent, broken, learnt."""

from __future__ import annotations

from data.primer.choice import FEMALE, PRICES, Chooser
from data.primer.lexicon import SCALES, Noun, adjective, adjectives_for, noun, nouns, suiting
from data.primer.plots.casting import FINDABLE, INDOORS, VISIBLE, at, people, plot, spot, thing
from data.primer.telling import Figure, Teller


@plot
def lost_and_found(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Something is lost, looked for in several places, and found by its owner or by a friend."""
    hero, friend = people(c)
    it = thing(c, noun(c.pick(FINDABLE)))
    if c.chance(0.5):
        t.tell(t.doing(hero, "have", it))
        t.tell(t.doing(hero, "lose", it), c.pick(("one day", "yesterday")))
    else:
        t.tell(t.doing(hero, "lose", it), c.pick(("", "one day", "yesterday")))
        if c.chance(0.4):
            t.tell(t.being(hero, c.pick(("angry", "sad"))))
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
        and "plant" not in entry.kinds
        and "goods" in entry.kinds | ({"goods"} if "food" in entry.kinds else set())
    ]
    if len(options) < 2:
        return shopping(t, c)
    one, other = (Figure(entry) for entry in c.pair(options))
    scale = next(scale for scale in SCALES if scale.kind in (*sorted(one.entry.kinds & other.entry.kinds), "gift"))
    how = c.pick(("more", "less", "too"))
    names = tuple(name for name in (scale.good if how == "more" else scale.bad) if name != "old")
    assert isinstance(one.entry, Noun)
    assert isinstance(other.entry, Noun)
    fitting = [said for said in suiting(one.entry, names) if said in suiting(other.entry, names)]
    if not fitting:
        return shopping(t, c)
    quality = c.pick(fitting).english
    t.tell(t.doing(hero, "go to", toward=shop), c.pick(("", "one day", "yesterday")))
    t.tell(t.seeing_both(hero, at(shop), one, other))
    if c.chance(0.4) and "food" in one.entry.kinds:
        t.tell(t.being(hero, "hungry"))
    elif c.chance(0.4) and quality not in PRICES:
        t.tell(t.being(other, "expensive"))
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
    if FEMALE & entry.kinds and friend.pronoun != "she":
        return present(t, c)
    gift = thing(c, entry, 0.5, VISIBLE - {"old"})
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


@plot
def borrowed(t: Teller, c: Chooser) -> tuple[str, ...]:
    """A book or a tool is lent, used and returned."""
    owner, reader = people(c)
    entry = c.pick([entry for entry in nouns("book", "tool") if "dishes" not in entry.kinds])
    it = thing(c, entry)
    action = "read" if "book" in entry.kinds else "use"
    t.tell(t.doing(owner, "have" if "goods" in entry.kinds else "buy", it))
    if c.chance(0.4):
        t.tell(t.doing(reader, action, it, modality="want"))
    t.tell(t.doing(owner, "lend", it, to=reader), c.pick(("", "one day", "yesterday")))
    good = suiting(entry, ("interesting", "useful", "light"))
    bad = suiting(entry, ("difficult", "heavy", "boring"))
    if bad and c.chance(0.3):
        t.because(t.doing(reader, action, it, negative=True), it, c.pick(bad).english)
    else:
        where = at(c.pick(("park", "library", "room", "garden")))
        t.tell(t.doing(reader, action, it, where), c.pick(("", "that evening")))
        if good and c.chance(0.6):
            t.tell(t.being(it, c.pick(good).english, very=c.chance(0.4)))
    t.tell(t.doing(reader, "return", it, to=owner), c.pick(("the next day", "after that")))
    return (entry.english, action)


@plot
def broken(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Something of a friend's breaks and is mended."""
    hero, friend = people(c)
    entry = c.pick(
        [entry for entry in nouns("machine", "toy") if "goods" in entry.kinds and "drive" not in entry.kinds]
    )
    it = Figure(entry, owner=friend)
    outdoors = ("garden", "park")
    t.tell(
        t.doing(hero, "break", it, at(c.pick(outdoors if "ride" in entry.kinds else ("room", "classroom", *outdoors)))),
        c.pick(("", "one day", "yesterday")),
    )
    t.tell(t.being(friend, "angry", very=c.chance(0.4)))
    if c.chance(0.4):
        t.joined(t.being(it, "old"), "so", t.doing(hero, "fix", it, negative=True, modality="can"))
        spare = Figure(entry, adjective("new"))
        t.tell(t.doing(hero, "buy", spare, at("department store")), "after that")
        t.tell(t.doing(hero, "give", spare, to=friend))
    else:
        t.tell(t.doing(hero, "fix", it), c.pick(("the next day", "after that")))
        t.tell(t.doing(hero, "return", it, to=friend))
    t.tell(t.being(friend, "happy"))
    return (entry.english,)


PRACTICE = {"study": ("library", "classroom", "room"), "sport": ("park", "school"), "instrument": ("room", "classroom")}
"""Where one learns it."""


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
    t.because(t.doing(friend, "help", hero), friend, c.pick(("kind", "smart")))
    place = c.pick(PRACTICE[next(kind for kind in PRACTICE if kind in entry.kinds)])
    t.tell(t.doing(hero, action, subject, at(place)), c.pick(("then", "after that", "that evening")))
    if c.chance(0.6):
        t.tell(t.being(hero, c.pick(("happy", "tired")), very=c.chance(0.3)))
    return (entry.english, place)
