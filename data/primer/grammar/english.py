"""Inflect the English words of the lexicon: regular forms by rule, irregular forms from the lexicon."""

from __future__ import annotations

_VOWELS = "aeiou"
_DOUBLED = frozenset("run swim sit cut get stop drop plan chat hug win dig put forget prefer".split())
_SIBILANT = ("s", "x", "z", "ch", "sh")


def _first(phrase: str) -> tuple[str, str]:
    """Split a phrase into the inflected word and the rest: 'look for' -> ('look', ' for')."""
    head, space, rest = phrase.partition(" ")
    return head, space + rest


def _with_s(word: str) -> str:
    if word.endswith(_SIBILANT) or (word.endswith("o") and word[-2] not in _VOWELS):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


_O_WITH_S = frozenset(("piano", "photo", "radio"))


def plural(noun: str) -> str:
    """Return the regular plural: apples, boxes, libraries, potatoes, but pianos."""
    return noun + "s" if noun in _O_WITH_S else _with_s(noun)


def third_person(verb: str) -> str:
    """Return the third person singular: eats, watches, studies, goes to, has."""
    head, rest = _first(verb)
    return ("has" if head == "have" else _with_s(head)) + rest


def past(verb: str) -> str:
    """Return the regular past: opened, closed, studied, played."""
    head, rest = _first(verb)
    if head.endswith("e"):
        return head + "d" + rest
    if head.endswith("y") and head[-2] not in _VOWELS:
        return head[:-1] + "ied" + rest
    return head + head[-1] * (head in _DOUBLED) + "ed" + rest


def ing(verb: str) -> str:
    """Return the -ing form: eating, making, running, looking for."""
    head, rest = _first(verb)
    if head.endswith("ie"):
        return head[:-2] + "ying" + rest
    if head.endswith("e") and not head.endswith("ee"):
        return head[:-1] + "ing" + rest
    return head + head[-1] * (head in _DOUBLED) + "ing" + rest


def comparative(adjective: str) -> str:
    """Return the regular comparative in -er: taller, bigger, heavier, larger."""
    if adjective.endswith("e"):
        return adjective + "r"
    if adjective.endswith("y"):
        return adjective[:-1] + "ier"
    if len(adjective) == 3 and adjective[1] in _VOWELS and adjective[2] not in _VOWELS + "wxy":
        return adjective + adjective[-1] + "er"
    return adjective + "er"


def superlative(adjective: str) -> str:
    """Return the regular superlative in -est."""
    return comparative(adjective)[:-1] + "st"


_SILENT_H = ("hour", "honest")
_CONSONANT_SOUND = ("university", "useful", "uni", "one", "European")


def article(next_word: str) -> str:
    """Return 'a' or 'an', by the sound that follows: an apple, an hour, a university."""
    if next_word.startswith(_SILENT_H):
        return "an"
    if next_word.startswith(_CONSONANT_SOUND):
        return "a"
    return "an" if next_word[0].lower() in _VOWELS else "a"


def be(person: int, plural_subject: bool, is_past: bool) -> str:
    """Return the form of 'be': am, is, are, was, were."""
    if is_past:
        return "were" if plural_subject or person == 2 else "was"
    if plural_subject or person == 2:
        return "are"
    return "am" if person == 1 else "is"


CONTRACTIONS = {word: f"{word}n't" for word in ("do", "does", "did", "is", "are", "was", "were", "could")}
CONTRACTIONS |= {"will": "won't", "can": "can't"}
"""Contractions with 'not'. They mark casual English, which is translated to plain Japanese."""

ATTACHED = {"will": "'ll", "am": "'m", "is": "'s", "are": "'re"}
"""Contractions with a pronoun: she'll, I'm, they're."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
