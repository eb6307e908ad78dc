"""A plot about repeated words: who repeats a list must look up what came after the same word before.

Nothing else in the corpus rewards that, and nothing else gives rise to induction heads (Olsson et al. 2022).
"""

from __future__ import annotations

from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import Complement
from data.primer.grammar.tree import Link, Word
from data.primer.lexicon import ADJECTIVES, CITIES, NOUNS, VERBS
from data.primer.plots.casting import either, people, plot
from data.primer.storyteller import Teller

LENGTH = range(6, 15)
"""Number of words in a list."""


def _vocabulary() -> tuple[tuple[str, str], ...]:
    """Return English words with their translations: nouns, cities, adjectives, verbs in the present and in the past."""
    entries = [(entry.english, entry.writing) for entry in NOUNS]
    entries += [(entry.english, entry.writing) for entry in CITIES]
    entries += [(entry.english, ja.attributive(entry.predicate).text) for entry in ADJECTIVES]
    for entry in VERBS:
        entries.append((entry.english, ja.dictionary(entry.predicate).text))
        entries.append((entry.past, ja.ta(entry.predicate).text))
    entries.reverse()  # of several translations, keep the first
    return tuple((english, writing) for english, writing in dict(entries).items() if " " not in english)


VOCABULARY = _vocabulary()


@plot
def word_list(t: Teller, c: Chooser) -> tuple[str, ...]:
    """Somebody says a list of words, and both repeat it."""
    hero, friend = people(t, c)
    words = c.several(VOCABULARY, c.pick(LENGTH))
    t.tell(t.doing(hero, "say", None, saying(words)), "", "one day", "yesterday")
    why, rival, state = either(c, (hero, "kind"), (friend, "having trouble"))
    t.because(t.doing(hero, "help", friend), t.being(t.meant(why, rival), state))
    t.tell(t.doing(friend, "say", None, saying(words)), "then", "soon")
    t.tell(t.doing(hero, "say", None, saying(words)), "after that", "at last")
    t.tell(t.doing(friend, "thank", hero) if c.chance(0.5) else t.being(hero, "happy", very=c.chance(0.3)))
    return (words[0][0], state)


def saying(words: tuple[tuple[str, str], ...]) -> Complement:
    """Build the words that somebody says, in order. Example: (said) apple run blue - 「りんご、走る、青い」と(言いました)."""
    english: list[Word] = []
    japanese: list[Word] = []
    for english_word, writing in words:
        link = Link()
        english.append(Word(english_word, link, True))
        japanese += [Word("、")] * bool(japanese) + [Word(writing, link, True)]
    return Complement(tuple(english), (Word("「"), *japanese, Word("」"), Word("と")), 0, 7)
