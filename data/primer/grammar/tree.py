"""What the rules build: two sequences of words whose translations share a `Link`, and phrases that mention a
`Referent`.

A rule never writes text. It orders `Word`s and `Phrase`s, once for English and once for Japanese; the text, the
character spans of the links and those of the mentions are read off the finished tree here, the same way for every
construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from data.primer.grammar.english import article


class Link:
    """Identity of a translation: the words that carry the same link, on either side, translate each other."""

    __slots__ = ()


@dataclass(eq=False, slots=True)
class Referent:
    """Somebody or something that a text talks about; pronouns and noun phrases mention it."""

    name: str
    """Tells it from all others of the text: Emi, park, red ball."""
    pronoun: str
    """he, she, it or they."""
    again: str
    """How English calls it once it is known: Emi, the park, the ball."""


@dataclass(slots=True, eq=False)
class Word:
    """A word (or a fixed group such as 'look for') of either side.

    Not frozen, as other parts of a phrase are not: a story makes hundreds, and that takes a fifth off its time."""

    text: str
    link: Link | None = None
    content: bool = False
    """A noun, name, verb, adjective, adverb or numeral: such a word must be linked."""


@dataclass(slots=True, eq=False)
class Phrase:
    """A group of words in order; with a referent it is a mention, by pronoun or by noun."""

    parts: tuple[Part, ...]
    referent: Referent | None = None
    pronoun: bool = False
    rival: Referent | None = None
    """Whom or what the pronoun could mean as well, were it not for what is said of it."""


Part = Word | Phrase
Parts = tuple[Part, ...]

A = "a"
"""The indefinite article; it becomes 'an' when the text is written, where the next word is known."""

_STOPS = frozenset((".", "?", "!"))
_ATTACHED = _STOPS | {",", "'s", "'ll", "'m", "'re"}


@dataclass(slots=True)
class Mention:
    """Where a text mentions a referent."""

    referent: Referent
    start: int
    end: int
    pronoun: bool
    rival: Referent | None


@dataclass(slots=True)
class Written:
    """One side as text. Spans are [start, end) in characters; `words` are all words with their place."""

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
    """The words of a sequence, left to right."""
    for part in parts:
        if isinstance(part, Word):
            yield part
        else:
            yield from words(part.parts)


def text(parts: Iterable[Part]) -> str:
    """The Japanese spelling of a sequence."""
    return "".join(word.text for word in words(parts))


def write(parts: Iterable[Part], *, english: bool) -> Written:
    """Spell a sequence: spaces, a/an and the capital on the English side; Japanese runs on."""
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
            if spelling == A and link is None:
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
                spans[-1] = (spans[-1][0], position)  # neighbours of one link are one span: 食べ + ました
            else:
                spans.append((start, position))
        last = link
    written.text = "".join(pieces)
    return written


def alignment(source: Written, target: Written) -> list[list[int]]:
    """[source start, source end, target start, target end] for every pair of linked spans, in source order."""
    rows = []
    for link, spans in source.spans.items():
        for start, end in spans:
            rows += [[start, end, *other] for other in target.spans.get(link, ())]
    return sorted(rows)


def segments(written: Written) -> list[list[int]]:
    """[start, end] of every word, punctuation too: Japanese as the rules cut it, English at its spaces as well."""
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
    """[pronoun start, end, antecedent start, end]: the last mention by noun before each pronoun."""
    rows = []
    mentions = sorted(written.mentions, key=lambda mention: (mention.start, mention.end))
    for position, mention in enumerate(mentions):
        if not mention.pronoun:
            continue
        named = [m for m in mentions[:position] if m.referent is mention.referent and not m.pronoun]
        if named:
            rows.append([mention.start, mention.end, named[-1].start, named[-1].end])
    return rows
