"""Define selectional restrictions beyond the lexicon: sets of words and kinds, each with its reason."""

from __future__ import annotations

from data.primer.lexicon import Noun

BARE = frozenset(("meal", "tv", "sport", "language", "study", "season"))
"""Kinds without any determiner: eat breakfast, play tennis, study math."""
UNIQUE = frozenset(("door", "window", "sea", "homework", "newspaper", "radio"))
"""Nouns that take 'the' at first mention."""
OWNED = frozenset(("item", "goods", "clean", "pet"))
"""Kinds that can have a possessor: his bag, Emi's room."""
FEMALE = frozenset(("ladies", "foot"))
"""Kinds without a possessor: dresses and skirts, which not everybody owns."""
HUNGER = frozenset("hungry thirsty tired happy sad angry sick busy healthy late".split()) | {"having trouble"}
"""Temporary states, used as predicates and hardly ever before a noun."""
SIZES, PAPERS = frozenset(("big", "small")), frozenset(("ticket", "stamp", "postcard", "letter", "photo", "key"))
"""Size adjectives, and the nouns that they do not modify: nobody buys a big ticket."""
PRICES = frozenset(("cheap", "expensive"))
FLAWS = frozenset(("heavy", "old", "dirty", "slow", "hot"))
"""Undesirable qualities, not used of things that are bought or wished for."""
GOING = ("go to", "come to", "arrive at")
TRADING = frozenset(("buy", "sell", "choose", "order", "receive", "want", "give"))
"""Verbs whose object can be cheap or expensive."""
SLOW = frozenset(("grow",))
"""Actions longer than a day: no 'this morning'."""
BRIEF = frozenset("sleep rest laugh cry walk run play dance cook eat drink order cut wash clean open close".split())
BRIEF |= {"throw", "hide", "touch", "watch", "wait for", "listen to", "pick up", "sit on", "get up", "arrive at"}
"""Actions too brief for spans of a week or more: nobody 'slept last month'."""
DAILY = ("yesterday", "last night", "this morning", "last Sunday", "tomorrow", "tonight")
CREATING = frozenset(("make", "bake", "write", "draw", "take", "grow", "plant", "order"))
"""Verbs whose object exists only after the action, or is soon eaten: not 'will draw that picture'."""
UNSEEN = frozenset(("write", "draw", "take", "plant", "grow"))
"""Verbs of creation whose object has no quality yet, hence no adjective."""
GENERIC = CREATING | {"eat", "drink", "cut", "read", "watch", "sing", "listen to"}
"""Verbs that take a generic object in a habit: 'reads novels', not 'reads that novel every morning'."""
SKILLS = frozenset(("play", "read", "write", "draw", "do", "make", "bake", "sing", "eat", "drink"))
"""Verbs whose potential form takes が (ピアノが弾ける); others take を (窓を閉められる)."""
UNCOUNTED = frozenset(("pizza", "cake", "pie", "salad"))
"""Dishes that are countable as servings, but uncountable as a kind: she likes pizza."""
GROCERIES = ("food", "vegetable", "drink")
AT = frozenset("school station airport zoo university pool supermarket bakery bookstore bank hospital".split())
AT |= {"post office", "hotel", "department store", "museum", "flower shop", "toy store"}


def preposition(place: Noun) -> str:
    """Return the preposition of a place: in the park, at the station, on the farm."""
    return "on" if place.english == "farm" else "at" if place.english in AT else "in"
