"""Trees of words, one per language. Words that translate each other share a `Link`; phrases mention a `Referent`.

Grammar rules order `Word`s and `Phrase`s for English and for Japanese. This module derives the text and the character
spans of links and mentions from the complete tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from data.primer.grammar.english import article


class Link:
    """Identity of a translation: words with the same link, in either language, translate each other."""

    __slots__ = ()


@dataclass(eq=False, slots=True)
class Referent:
    """A person, animal or thing in the text; pronouns and noun phrases mention it."""

    name: str
    """Name, unique within the text: Emi, park, red ball."""
    pronoun: str
    """Pronoun: he, she, it or they."""
    again: str
    """The English noun phrase after the first mention: Emi, the park, the ball."""


@dataclass(slots=True, eq=False)
class Word:
    """A word, or a fixed group such as 'look for', in either language.

    Words and phrases are dataclasses without `frozen=True`: a story has hundreds of them, and freezing them makes
    generation a quarter slower.
    """

    text: str
    link: Link | None = None
    content: bool = False
    """Whether the word is a noun, name, verb, adjective, adverb or numeral, and therefore must be linked."""


@dataclass(slots=True, eq=False)
class Phrase:
    """A group of words in order; with a referent, it is a mention, by pronoun or by noun."""

    parts: tuple[Part, ...]
    referent: Referent | None = None
    pronoun: bool = False
    rival: Referent | None = None
    """Another possible antecedent, excluded only by the meaning of the sentence."""


Part = Word | Phrase
Parts = tuple[Part, ...]

_STOPS = frozenset((".", "?", "!"))
_ATTACHED = _STOPS | {",", ":", "'s", "'ll", "'m", "'re"}


@dataclass(slots=True)
class Mention:
    """A mention of a referent in a text, [start, end) in characters."""

    referent: Referent
    start: int
    end: int
    pronoun: bool
    rival: Referent | None


@dataclass(slots=True)
class Written:
    """One language side of a sentence pair, as text. Spans are [start, end) in characters; `words` have their spans."""

    text: str
    spans: dict[Link, list[tuple[int, int]]] = field(default_factory=dict)
    mentions: list[Mention] = field(default_factory=list)
    words: list[tuple[Word, int, int]] = field(default_factory=list)


def _flatten(parts: Iterable[Part], events: list[Word | tuple[Phrase, int]]) -> None:
    for part in parts:
        if isinstance(part, Word):
            events.append(part)
        elif part.referent is None:
            _flatten(part.parts, events)
        else:
            events.append((part, 0))
            _flatten(part.parts, events)
            events.append((part, 1))


def words(parts: Iterable[Part]) -> Iterator[Word]:
    """Yield the words of a sequence from left to right."""
    for part in parts:
        if isinstance(part, Word):
            yield part
        else:
            yield from words(part.parts)


def referents(parts: Iterable[Part]) -> Iterator[Referent]:
    """Yield the referent of each mention of a sequence, those of a longer mention first."""
    for part in parts:
        if isinstance(part, Phrase):
            if part.referent is not None:
                yield part.referent
            yield from referents(part.parts)


def text(parts: Iterable[Part]) -> str:
    """Return the Japanese spelling of a sequence."""
    return "".join(word.text for word in words(parts))


def write(parts: Iterable[Part], *, english: bool) -> Written:
    """Write a sequence as text with spans; English gets spaces, a/an and a capital, Japanese has no spaces."""
    events: list[Word | tuple[Phrase, int]] = []
    _flatten(parts, events)
    written = Written("")
    pieces: list[str] = []
    opened: list[int] = []
    position = 0
    capital = english
    last: Link | None = None
    for number, event in enumerate(events):
        if not isinstance(event, Word):
            phrase, closing = event
            if not closing:
                opened.append(len(written.words))
            else:
                first = opened.pop()
                if first < len(written.words) and phrase.referent is not None:
                    start = written.words[first][1]
                    written.mentions.append(Mention(phrase.referent, start, position, phrase.pronoun, phrase.rival))
            continue
        spelling, link = event.text, event.link
        if not spelling:
            continue
        if english:
            if spelling == "a" and link is None:  # the indefinite article
                spelling = article(next(other.text for other in events[number + 1 :] if isinstance(other, Word)))
            if pieces and spelling not in _ATTACHED:
                pieces.append(" ")
                position += 1
            if capital:
                spelling = spelling[0].upper() + spelling[1:]
            capital = spelling in _STOPS
        pieces.append(spelling)
        start, position = position, position + len(spelling)
        written.words.append((event, start, position))
        if link is not None:
            spans = written.spans.setdefault(link, [])
            if link is last:
                spans[-1] = (spans[-1][0], position)  # adjacent words that share a link form one span: 食べ + ました
            else:
                spans.append((start, position))
        last = link
    written.text = "".join(pieces)
    return written


def alignment(source: Written, target: Written) -> list[list[int]]:
    """Return [source start, source end, target start, target end] of every pair of linked spans, in source order."""
    rows = []
    for link, spans in source.spans.items():
        for start, end in spans:
            rows += [[start, end, *other] for other in target.spans.get(link, ())]
    return sorted(rows)


def segments(written: Written) -> list[list[int]]:
    """Return [start, end] of each word and punctuation mark; English groups such as 'look for' are split at spaces."""
    spans = []
    for word, start, end in written.words:
        if " " not in word.text:
            spans.append([start, end])
            continue
        for part in word.text.split(" "):
            spans.append([start, start + len(part)])
            start += len(part) + 1
    return spans


def antecedents(written: Written) -> list[list[int]]:
    """Return [pronoun start, end, antecedent start, end]: the last noun that mentions the referent of each pronoun."""
    rows = []
    mentions = sorted(written.mentions, key=lambda mention: (mention.start, mention.end))
    for position, mention in enumerate(mentions):
        if not mention.pronoun:
            continue
        named = [m for m in mentions[:position] if m.referent is mention.referent and not m.pronoun]
        if named:
            rows.append([mention.start, mention.end, named[-1].start, named[-1].end])
    return rows
