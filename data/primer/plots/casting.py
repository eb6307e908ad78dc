"""Register plots, and choose the people, things and places of a story.

A plot adds three to eight sentences to a `Teller`, which chooses the pronouns, and returns the content words that
identify the story (for the `novel` split). Every plot has a turn: a pronoun with two possible antecedents that only the
meaning of the sentence distinguishes (`Teller.meant`): "Emi lent Anna the book because she was kind", or "… because she
wanted to read it". Both are drawn equally often, so that no guess by position is better than chance. In other
sentences, `Teller.by_pronoun` forces an unambiguous pronoun.
"""

from __future__ import annotations

from collections.abc import Callable

from data.primer.characters import Figure
from data.primer.constructions.basic import beside
from data.primer.grammar.choice import CALLED, Chooser
from data.primer.grammar.clauses import Complement, marked
from data.primer.grammar.noun_phrases import common
from data.primer.grammar.selectional_restrictions import preposition
from data.primer.grammar.tree import Word
from data.primer.lexicon import POSITIONS, Noun, adjectives_for, noun
from data.primer.storyteller import Teller

Plot = Callable[[Teller, Chooser], tuple[str, ...]]
PLOTS: list[tuple[str, Plot]] = []


def plot(function: Plot) -> Plot:
    """Register a plot under the name of its function."""
    PLOTS.append((function.__name__, function))
    return function


# Casting and places


def people(t: Teller, chooser: Chooser) -> tuple[Figure, Figure]:
    """Choose two people, most often with the same pronoun; the second act of a story keeps them, in either role."""
    if t.cast:
        first, second = t.cast
        return (first, second) if chooser.chance(0.5) else (second, first)
    same_pronoun = chooser.chance(0.8)
    names = chooser.pair(CALLED)
    while (names[0].pronoun == names[1].pronoun) != same_pronoun:
        names = chooser.pair(CALLED)
    t.cast = Figure(names[0]), Figure(names[1])
    return t.cast


COLORS = frozenset(("red", "blue", "white", "black", "yellow"))
VISIBLE = COLORS | {"big", "small", "new", "old", "pretty", "beautiful"}


def thing(chooser: Chooser, entry: Noun, plain: float = 0.3, qualities: frozenset[str] = VISIBLE) -> Figure:
    """Create a figure for a thing; unless it is plain (with probability `plain`), it has a visible quality."""
    suitable = [attribute for attribute in adjectives_for(entry) if attribute.english in qualities]
    return Figure(entry, None if not suitable or chooser.chance(plain) else chooser.pick(suitable))


def known(name: str) -> Figure:
    """Create a figure that is definite at its first mention. Example: the floor, the mountain."""
    figure = Figure(noun(name))
    figure.introduced = True
    return figure


FINDABLE = tuple("key ball doll ring watch umbrella pen photo toy letter hat camera notebook book ticket map".split())
INDOORS = ("kitchen", "room", "garden", "library", "classroom", "park", "house")


def at(place: str, particle: str = "で", rank: int = 2) -> Complement:
    """Build a complement that names a place; `rank`: its Japanese rank. Example: in the kitchen - 台所で."""
    phrase = common(noun(place), "" if place == "school" else "the")
    return marked(phrase, preposition(noun(place)), particle, 4, rank)


def spot(
    chooser: Chooser,
    particle: str = "で",
    landmarks: tuple[str, ...] = ("table", "bed", "sofa", "desk", "chair"),
    opening: str = "the",
    where: str = "",
) -> Complement:
    """Build a place relative to a landmark; `where` fixes the position. Example: under the bed - ベッドの下で."""
    where = where or chooser.pick(("under", "under", "behind"))
    position = next(position for position in POSITIONS if position.english == where)
    english, (*place, ni) = beside(position, common(noun(chooser.pick(landmarks)), opening))
    assert isinstance(ni, Word)
    return Complement(english, (*place, Word(particle, ni.link)), 4, 2)


# Turns


def either(chooser: Chooser, first: tuple[Figure, str], second: tuple[Figure, str]) -> tuple[Figure, Figure, str]:
    """Choose one of two possible antecedents, each given with a state that only it can have; return (antecedent, rival,
    the antecedent's state)."""
    meant, rival = (first, second) if chooser.chance(0.5) else (second, first)
    return meant[0], rival[0], meant[1]


def apology(t: Teller, chooser: Chooser, hero: Figure, friend: Figure, deed: str, thing: Figure) -> str:
    """Add an apology: 'Ken apologized to Taro because he was angry', or '… because he broke the radio'. Returns the
    friend's state if the state is the reason, else ''."""
    state = chooser.pick(("angry", "sad")) if chooser.chance(0.5) else ""
    statement = t.doing(hero, "apologize to", friend)
    if state:
        t.because(statement, t.being(t.meant(friend, hero), state))
    else:
        t.because(statement, t.doing(t.meant(hero, friend), deed, thing))
    return state
