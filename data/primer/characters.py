"""Characters and things of a story, and the facts that its questions ask about."""

from __future__ import annotations

from dataclasses import dataclass, field

from data.primer.grammar import noun_phrases
from data.primer.grammar.clauses import Clause
from data.primer.grammar.noun_phrases import Determiner, NounPhrase, common, describing, possessive
from data.primer.grammar.selectional_restrictions import BARE
from data.primer.grammar.tree import Referent
from data.primer.lexicon import Adjective, Name, Noun


@dataclass(eq=False)
class Figure:
    """A referent in a story: a named person, an animal or a thing."""

    entry: Name | Noun
    adjective: Adjective | None = None
    owner: Figure | None = None
    plural: bool = False
    pronoun: str = field(init=False)
    """Pronoun: he, she, it or they."""
    referent: Referent = field(init=False)
    introduced: bool = False
    since: int = 0
    """Number of the sentence that introduced the figure."""

    def __post_init__(self) -> None:
        self.pronoun = "they" if self.plural else self.entry.pronoun if isinstance(self.entry, Name) else "it"
        owner = [f"{self.owner.entry.english}'s"] if self.owner else []
        quality = [self.adjective.english] if self.adjective else []
        named = isinstance(self.entry, Name) or self.entry.kinds & BARE
        again = self.entry.english if named else f"the {self._noun()}"
        self.referent = Referent(" ".join([*owner, *quality, self.entry.english]), self.pronoun, again)

    def _noun(self) -> str:
        assert isinstance(self.entry, Noun)
        return self.entry.plural if self.plural and self.entry.plural else self.entry.english

    @property
    def animate(self) -> bool:
        """Whether the figure is a person or an animal."""
        return isinstance(self.entry, Name) or self.entry.animate

    def full(self) -> NounPhrase:
        """Build the full noun phrase: a name; for a thing, 'a red ball' at the first mention, then 'the ball'."""
        if isinstance(self.entry, Name):
            return noun_phrases.name(self.entry, self.referent)
        if self.entry.kinds & BARE:
            return common(self.entry, "", referent=self.referent)
        if self.introduced:
            return common(self.entry, "the", plural=self.plural, referent=self.referent)
        modifiers = (describing(self.adjective),) if self.adjective else ()
        opening: Determiner | str = "a" if self.entry.plural and not self.plural else ""
        if self.owner:
            opening = possessive(self.owner.full())
        return common(self.entry, opening, *modifiers, plural=self.plural, referent=self.referent)


@dataclass(slots=True, eq=False)
class Statement:
    """A clause with its subject and the Japanese particle that marks the subject (None: omitted)."""

    who: Figure
    clause: Clause
    topic: str | None
    mentioned: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """An affirmative clause of a story, which a question can ask about."""

    who: Figure
    action: str
    """The verb, or the adjective of a state."""
    what: Figure | None = None
    to: Figure | None = None
    toward: str | None = None
    modality: str = ""
    state: bool = False
    degree: str = ""
    """Degree of a quality: 'too', 'more', 'less' or none."""
    turn: bool = False
    """Whether the clause has a pronoun with a rival as its subject."""
    sentence: int = 0
