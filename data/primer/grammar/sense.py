"""What makes sense: sets of words and kinds that go together with some words and not with others, each with its reason."""

from __future__ import annotations

from data.primer.lexicon import Noun

BARE = frozenset(("meal", "tv", "sport", "language", "study", "season"))
"""Kinds without any determiner: eat breakfast, play tennis, study math."""
UNIQUE = frozenset(("door", "window", "sea", "homework", "newspaper", "radio"))
"""Nouns that take 'the' at first mention."""
OWNED = frozenset(("item", "goods", "clean", "pet"))
"""Kinds that somebody has: his bag, Emi's room."""
FEMALE = frozenset(("ladies", "foot"))
"""Dresses and skirts, which not everybody owns."""
HUNGER = frozenset(
    ("hungry", "thirsty", "tired", "happy", "sad", "angry", "sick", "busy", "healthy", "having trouble", "late")
)
"""Passing states: predicates, hardly ever said before a noun."""
PRICES = frozenset(("cheap", "expensive"))
FLAWS = frozenset(("heavy", "old", "dirty", "slow", "hot"))
"""Nobody says of what is bought or wished for that it is so."""
TRADING = frozenset(("buy", "sell", "choose", "order", "receive", "want", "give"))
"""Verbs with which one speaks of a cheap or an expensive thing."""
SLOW = frozenset(("grow",))
"""What takes longer than a day: no 'this morning'."""
BRIEF = frozenset(
    (
        *"sleep rest laugh cry walk run play dance cook eat drink order cut wash clean open close throw hide touch"
        " watch".split(),
        *("wait for", "listen to", "pick up", "sit on", "get up", "arrive at"),
    )
)
"""What one remembers of a day, not of a month: nobody 'slept last month'."""
DAILY = ("yesterday", "last night", "this morning", "last Sunday", "tomorrow", "tonight")
CREATING = frozenset(("make", "bake", "write", "draw", "take", "grow", "plant", "order"))
"""The thing is there only afterwards, or soon eaten: not 'will draw that picture', 'takes the old photo'."""
UNSEEN = frozenset(("write", "draw", "take", "plant", "grow"))
"""What is made by these has no quality yet."""
GENERIC = CREATING | {"eat", "drink", "cut", "read", "watch", "sing", "listen to"}
"""A habit is about the kind of thing: 'reads novels', not 'reads that novel every morning'."""
SKILLS = frozenset(("play", "read", "write", "draw", "do", "make", "bake", "sing", "eat", "drink"))
"""With these, what one can do takes が: ピアノが弾ける; elsewhere を is what one hears: 窓を閉められる."""
UNCOUNTED = frozenset(("pizza", "cake", "pie", "salad"))
"""Dishes that English counts on the plate, but not in general: she likes pizza."""
GROCERIES = ("food", "vegetable", "drink")
AT = frozenset(
    (
        "school",
        "station",
        "airport",
        "zoo",
        "university",
        "pool",
        "supermarket",
        "bakery",
        "bookstore",
        "bank",
        "hospital",
        "post office",
        "hotel",
        "department store",
        "museum",
        "flower shop",
        "toy store",
    )
)


def preposition(place: Noun) -> str:
    """in the park, at the station, on the farm."""
    return "on" if place.english == "farm" else "at" if place.english in AT else "in"
