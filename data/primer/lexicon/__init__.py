"""Load the lexicon from the tab-separated tables in this folder, with one entry per line.

To add a word, add a line. A verb or an adjective lists the `kinds` of noun (or single nouns) that it accepts, so that
people eat food and dogs do not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from data.primer.grammar import english
from data.primer.grammar.japanese import Predicate

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A common noun."""

    english: str
    plural: str | None
    """Plural form; None for a mass noun, which takes neither 'a' nor a number."""
    writing: str
    reading: str
    counter: str | None
    kinds: frozenset[str]

    @property
    def animate(self) -> bool:
        """Whether the noun is a person or an animal: いる, not ある."""
        return bool(self.kinds & {"person", "animal"})


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """The name of a person, or of a city or country (pronoun 'it')."""

    english: str
    writing: str
    pronoun: str
    kinds: frozenset[str]

    @property
    def family(self) -> bool:
        """Whether the name belongs to the speaker's family: gifts to them are くれる, as to the speaker."""
        return self.english.startswith("my ")


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with one object type; a second line with the same English is another Japanese verb for other objects."""

    english: str
    past: str
    participle: str
    writing: str
    reading: str
    kind: str
    subject: tuple[str, ...]
    particle: str
    object: tuple[str, ...]
    features: frozenset[str]

    @property
    def transitive(self) -> bool:
        """Whether the verb takes an object (or a goal)."""
        return bool(self.object)

    @property
    def predicate(self) -> Predicate:
        """Return the Japanese predicate, for inflection."""
        return verb_predicate(self.writing, self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective and the kinds of noun that it suits."""

    english: str
    writing: str
    reading: str
    kind: str
    kinds: tuple[str, ...]
    features: frozenset[str]

    @property
    def comparative(self) -> str | None:
        """Return the -er form or 'better'; None if the comparative is formed with 'more'."""
        if "more" in self.features:
            return None
        return "better" if "better" in self.features else english.comparative(self.english)

    @property
    def superlative(self) -> str | None:
        """Return the -est form or 'best'; None if the superlative is formed with 'most'."""
        if "more" in self.features:
            return None
        return "best" if "better" in self.features else english.superlative(self.english)

    @property
    def predicate(self) -> Predicate:
        """Return the Japanese predicate, for inflection."""
        return adjective_predicate(self.writing, self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time expression and its tense."""

    english: str
    writing: str
    reading: str
    tense: str


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """An activity at a place: a verb, and the kind of object if restricted."""

    place: str
    verb: str
    object: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """A position relative to a landmark (under - の下), with the kinds of landmarks and of things located there."""

    english: str
    writing: str
    reading: str
    landmarks: tuple[str, ...]
    things: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Qualities for and against the things of a kind."""

    kind: str
    good: tuple[str, ...]
    bad: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """A reason for or against an action: a quality of the subject or of the object."""

    verb: str
    object: str | None
    negative: bool
    of_subject: bool
    adjectives: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sequel:
    """Two successive actions on the same object."""

    first: str
    second: str
    object: str


@cache
def verb_predicate(writing: str, kind: str) -> Predicate:
    """Split a verb into a predicate: 勉強する is 勉強 (content) + する (inflected); 好きな and ほしい are Japanese adjectives."""
    if kind in ("na", "i"):
        return adjective_predicate(writing, kind)
    if kind == "suru" and writing != "する":
        return Predicate(writing[:-2], "する", kind)
    return Predicate("", writing, kind)


@cache
def adjective_predicate(writing: str, kind: str) -> Predicate:
    """Split an adjective into a predicate: 静かな -> 静か + だ, お腹がすいている -> お腹がすい + ている, 高い unchanged."""
    if kind in ("na", "no"):
        return Predicate(writing[:-1], "", "da", writing[-1])
    if kind == "state":
        return Predicate(writing[:-3], writing[-3:], "ichidan")
    return Predicate("", writing, kind)


def _rows(table: str) -> list[dict[str, str]]:
    """Return the lines of a table as dictionaries; '#' starts a comment line; a missing last cell is empty."""
    path = Path(__file__).with_name(f"{table}.tsv")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    header = lines[0].split("\t")
    rows = []
    for line in lines[1:]:
        cells = line.split("\t")
        if not len(header) - 1 <= len(cells) <= len(header):
            raise ValueError(f"{path.name}: {len(cells)} cells instead of {len(header)} in {line!r}")
        rows.append(dict(zip_longest(header, cells, fillvalue="")))
    return rows


def _words(cell: str) -> tuple[str, ...]:
    return () if cell == "-" else tuple(cell.split())


_CELLS: dict[object, Callable[[str], Any]] = {
    str: str,
    bool: {"+": False, "-": True, "object": False, "subject": True}.__getitem__,
    str | None: lambda cell: None if cell == "-" else cell,
    tuple[str, ...]: _words,
    frozenset[str]: lambda cell: frozenset(_words(cell)),
}
"""Reads a cell, by the type of its field."""


def _entries(kind: type[T], table: str, /, **columns: str) -> list[T]:
    """Return the lines of a table as entries; its columns are the fields of `kind`, in order. `columns` maps a field to
    its column if the names differ."""
    hints = get_type_hints(kind)
    readers, names = [_CELLS[hint] for hint in hints.values()], [columns.get(field, field) for field in hints]
    rows = _rows(table)
    if list(rows[0]) != names:
        raise ValueError(f"{table}.tsv: the columns are {', '.join(rows[0])} instead of {', '.join(names)}")
    return [kind(*(read(row[name]) for read, name in zip(readers, names, strict=True))) for row in rows]


def _regular(entry: Verb) -> Verb:
    """Replace '+' by the regular past."""
    past, participle = (english.past(entry.english) if form == "+" else form for form in (entry.past, entry.participle))
    return replace(entry, past=past, participle=participle)


NOUNS = [
    replace(entry, plural=english.plural(entry.english)) if entry.plural == "+" else entry
    for entry in _entries(Noun, "nouns")
]
NAMES = [
    Name(row["english"], row["writing"], row["pronoun"], frozenset({"person", "named", row["pronoun"]}))
    for row in _rows("names")
]
CITIES = [Name(row["english"], row["writing"], "it", frozenset({"city"})) for row in _rows("cities")]
VERBS = [_regular(entry) for entry in _entries(Verb, "verbs", kind="class")]
ADJECTIVES = _entries(Adjective, "adjectives", kind="class")
TIMES = _entries(Time, "times", tense="tenses")
SCENES = [
    Scene(row["place"].replace("-", " "), verb.replace("-", " "), kind or None)
    for row in _rows("places")
    for verb, _, kind in (scene.partition(":") for scene in row["scenes"].split())
]
POSITIONS = _entries(Position, "positions")
SCALES = _entries(Scale, "scales")
REASONS = _entries(Reason, "reasons", negative="polarity", of_subject="whose")
CHANGES = {row["adjective"]: _words(row["things"]) for row in _rows("changes")}
SEQUELS = _entries(Sequel, "sequels")


def is_a(noun: Noun | Name, kinds: tuple[str, ...]) -> bool:
    """Whether the noun is of one of the kinds and not excluded ('-novel'), or is itself listed (spaces as hyphens)."""
    name = noun.english.replace(" ", "-")
    return name in kinds or (any(kind in noun.kinds for kind in kinds) and f"-{name}" not in kinds)


@cache
def nouns(*kinds: str) -> tuple[Noun, ...]:
    """Return all nouns that belong to one of the kinds, in the order of the table."""
    return tuple(noun for noun in NOUNS if is_a(noun, kinds))


@cache
def noun(name: str) -> Noun:
    """Return the noun with this English form."""
    return next(entry for entry in NOUNS if entry.english == name)


@cache
def verb(name: str, thing: Noun | None = None) -> Verb:
    """Return the verb with this English form for the object ('wear' is 着る for a shirt, かぶる for a hat); without an
    object, the intransitive verb if there is one."""
    candidates = [entry for entry in VERBS if entry.english == name]
    for entry in candidates:
        if is_a(thing, entry.object) if thing else not entry.transitive:
            return entry
    if thing and len(candidates) > 1:
        raise LookupError(f"which verb {name!r} is meant for {thing.english!r}?")
    return candidates[0]


@cache
def adjective(name: str) -> Adjective:
    """Return the adjective with this English form."""
    return next(entry for entry in ADJECTIVES if entry.english == name)


@cache
def takers(name: str, kind: str) -> tuple[tuple[Verb, Noun], ...]:
    """Return the verb with this English form, paired with each noun of the kind that it accepts."""
    return tuple(
        (entry, thing) for entry in VERBS if entry.english == name for thing in nouns(kind) if is_a(thing, entry.object)
    )


@cache
def without_preposition(entry: Verb) -> Verb:
    """Return the verb without its preposition: go to -> go, for 'where did he go'."""
    first = {form: getattr(entry, form).split()[0] for form in ("english", "past", "participle")}
    return replace(entry, **first)


def suiting(entry: Noun | Name, names: tuple[str, ...]) -> list[Adjective]:
    """Return the named adjectives that suit the noun."""
    return [adjective(name) for name in names if is_a(entry, adjective(name).kinds)]


@cache
def adjectives_for(entry: Noun | Name) -> tuple[Adjective, ...]:
    """Return all adjectives that suit the noun."""
    return tuple(adjective for adjective in ADJECTIVES if is_a(entry, adjective.kinds))


def causes(entry: Verb, thing: Noun) -> list[Reason]:
    """Return the reasons for or against the action that are qualities of the thing."""
    candidates = [cause for cause in REASONS if cause.verb == entry.english and cause.object and not cause.of_subject]
    return [cause for cause in candidates if any(taken is thing for _, taken in takers(cause.verb, str(cause.object)))]


@cache
def things(sequel: Sequel) -> tuple[Noun, ...]:
    """Return the things to which both actions can happen."""
    accepted = [thing for _, thing in takers(sequel.second, sequel.object)]
    return tuple(thing for _, thing in takers(sequel.first, sequel.object) if thing in accepted)
