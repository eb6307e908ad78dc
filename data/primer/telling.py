"""Telling a story: who and what has been mentioned, and hence when English says 'she' or 'it' and Japanese says nothing.

English takes a pronoun for the subject of the sentence before, and for a thing or person that the last sentences mentioned when no
other of the same pronoun was. Japanese leaves a continuing subject out, and a thing just spoken of where the verb says enough
(探しました, ケンに返しました); it names people and, with other verbs, things again. A newcomer enters with が.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from data.primer import japanese as ja
from data.primer import noun_phrases
from data.primer.choice import BARE, Chooser
from data.primer.clauses import Clause, Complement, Mode, adjective_head, marked, verb_head
from data.primer.constructions.adjectives import comparing, preferring, turned, with_reason
from data.primer.lexicon import Adjective, Name, Noun, adjective, noun, verb
from data.primer.noun_phrases import Determiner, NounPhrase, common, describing, possessive, pronoun, together
from data.primer.tree import Link, Part, Parts, Referent, Word, text


@dataclass(eq=False)
class Figure:
    """Somebody or something in a story: a person by name, an animal, a thing."""

    entry: Name | Noun
    adjective: Adjective | None = None
    owner: Figure | None = None
    plural: bool = False
    referent: Referent = field(init=False)
    introduced: bool = False
    since: int = 0
    """The number of the sentence that introduced it."""

    def __post_init__(self) -> None:
        self.referent = Referent(self.entry.english)

    @property
    def pronoun(self) -> str:
        """he, she, it or they."""
        if self.plural:
            return "they"
        return self.entry.pronoun if isinstance(self.entry, Name) else "it"

    @property
    def animate(self) -> bool:
        """Whether it acts for itself: people and animals."""
        return isinstance(self.entry, Name) or self.entry.animate

    def full(self) -> NounPhrase:
        """By name; a thing as 'a red ball' the first time and 'the ball' afterwards."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """A clause together with whether Japanese has to say its subject."""

    clause: Clause
    topic: str | None


class Teller:
    """Builds a story sentence by sentence, both languages at once."""

    def __init__(self, chooser: Chooser) -> None:
        self.chooser = chooser
        self.english: list[Part] = []
        self.japanese: list[Part] = []
        self.sentences = 0
        self._topic: Figure | None = None
        self._entered: Figure | None = None
        self._recent: list[Figure] = []
        self._now: list[Figure] = []

    # Mentions

    def _mention(self, figure: Figure) -> None:
        if not figure.introduced:
            figure.introduced, figure.since = True, self.sentences
        if figure not in self._now:
            self._now.append(figure)

    def _clear(self, figure: Figure) -> bool:
        """Whether the pronoun would mean the figure and nothing else that was just spoken of."""
        around = [other for other in (*self._recent, *self._now) if other.pronoun == figure.pronoun]
        return figure in around and all(other is figure for other in around)

    def subject(self, figure: Figure, again: bool = False) -> tuple[NounPhrase, str | None]:
        """The figure as subject, and its Japanese topic particle (None: unsaid); `again` within a sentence, never twice by name."""
        new, entered = not figure.introduced, self._entered
        self._entered = None
        continuing = self._topic is figure
        use_pronoun = (
            figure.introduced
            and (continuing or self._clear(figure))
            and ((again and continuing) or self.chooser.chance(0.85 if continuing else 0.6))
        )
        full = figure.full()
        phrase = pronoun(figure.pronoun, figure.referent, japanese=full.japanese) if use_pronoun else full
        self._mention(figure)
        if continuing and use_pronoun:
            return phrase, "は" if entered is figure else None
        if new and figure.owner is None and (self.sentences or not isinstance(figure.entry, Name)):
            self._entered = figure
            return phrase, "が"
        return phrase, "は"

    def object(self, figure: Figure, action: str = "") -> NounPhrase:
        """The figure after a verb or preposition; a thing or an animal goes unsaid with an action that needs no more."""
        if figure.introduced and self._clear(figure) and self.chooser.chance(0.8):
            unsaid = not isinstance(figure.entry, Name) and action in PLAIN_ENOUGH
            phrase = pronoun(figure.pronoun, figure.referent, dropped=unsaid, japanese=figure.full().japanese)
        else:
            phrase = figure.full()
        self._mention(figure)
        return phrase

    def _advance(self, topic: Figure) -> None:
        self._topic, self._recent, self._now = topic, self._now, []

    # Clauses

    def doing(
        self,
        who: Figure,
        action: str,
        what: Figure | None = None,
        *more: Complement,
        to: Figure | None = None,
        tense: str = "past",
        negative: bool = False,
        modality: str = "",
        toward: str | None = None,
        again: bool = False,
    ) -> Said:
        """Somebody does something: `to` a person (giving), `toward` a place (going), `again` in one sentence."""
        subject, topic = self.subject(who, again)
        complements: list[Complement] = list(more)
        if toward:
            one = verb(action, noun(toward))
            complements.append(marked(self.chooser.goal(noun(toward)), "", one.particle, 0, 7))
        else:
            one = verb(action, what.entry if what and isinstance(what.entry, Noun) else None)
        if what:
            complements.append(marked(self.object(what, action), "", one.particle, 0, 7))
        if to:
            complements.append(marked(self.object(to), "to", "に", 1, 6))
        clause = Clause(verb_head(one), subject, Mode(tense, negative, modality), tuple(complements))
        self._advance(who)
        return Said(clause, topic)

    def being(
        self, who: Figure, quality: str, *, tense: str = "past", negative: bool = False, very: bool = False
    ) -> Said:
        """Somebody or something is of a quality."""
        subject, topic = self.subject(who)
        topic = topic and "は"
        said = adjective(quality)
        head = adjective_head(said)
        if very:
            degree, link = Link(), Link()
            head = adjective_head(
                said, (Word("very", degree), Word(said.english, link, True)), (Word("とても", degree),), link
            )
        self._advance(who)
        return Said(Clause(head, subject, Mode(tense, negative)), topic)

    def becoming(self, who: Figure, quality: str) -> Said:
        """It became big."""
        subject, topic = self.subject(who)
        said = adjective(quality)
        self._advance(who)
        return Said(Clause(verb_head(verb("become")), subject, Mode("past"), (turned(said),)), topic)

    def comparing(self, who: Figure, quality: str, standard: Figure) -> Said:
        """The rabbit was faster than the turtle."""
        subject, topic = self.subject(who)
        head = comparing(adjective(quality), self.object(standard))
        self._advance(who)
        return Said(Clause(head, subject, Mode("past")), topic)

    def seeing_both(self, who: Figure, place: Complement, first: Figure, second: Figure) -> Said:
        """She saw a pie and a cake in the bakery."""
        subject, topic = self.subject(who)
        both = together(first.full(), second.full())
        self._mention(first)
        self._mention(second)
        self._advance(who)
        complements = (place, marked(both, "", "を", 0, 7))
        return Said(Clause(verb_head(verb("see", noun("ball"))), subject, Mode("past"), complements), topic)

    def preferring(self, who: Figure, better: Figure, worse: Figure, quality: str, how: str) -> None:
        """She preferred the pie over the cake because it was sweeter (or: because it was too sour)."""
        subject, topic = self.subject(who)
        first, second = better.full(), worse.full()
        main = preferring(self.chooser, subject, first, second, Mode("past"))
        english, japanese, _ = with_reason(main, first, second, adjective(quality), how, topic)
        self._now = [who, worse if how == "too" else better]
        self._advance(who)
        self.add(english, japanese)

    # Sentences

    def tell(self, said: Said, lead: str = "") -> None:
        """One clause as a sentence, perhaps after 'then', 'but', 'one day'."""
        opening, start = self._lead(lead)
        topic = "は" if lead == "one day" and said.topic is None else said.topic  # a new scene says who again
        self.add((*opening, *said.clause.english()), (*start, *said.clause.japanese(topic=topic)))

    def joined(self, first: Said, word: str, second: Said, lead: str = "") -> None:
        """Two clauses with 'so', 'but' or 'and'."""
        opening, start = self._lead(lead)
        link = Link()
        form, particle = {"so": (ja.before_node, "ので"), "but": (None, "が"), "and": (ja.te, "")}[word]
        shares = word == "and" and second.topic is None
        # Another's reason has a subject of its own: 時計が古かったので、ケンは….
        topic = "が" if word == "so" and first.topic and second.topic else first.topic
        comma = () if shares else (Word(","),)
        english = (
            *opening,
            *first.clause.english(),
            *comma,
            Word(word, link),
            *second.clause.english(subject=not shares),
        )
        japanese = (
            *start,
            *first.clause.japanese(form, topic=topic),
            Word(particle, link),
            Word("、"),
            *second.clause.japanese(topic=second.topic),
        )
        self.add(english, japanese)

    def because(self, main: Said, about: Figure, quality: str, *, negative: bool = False) -> None:
        """A sentence with its reason, which English says second and Japanese first. The reason's subject is a pronoun.

        In Japanese a thing already known is named in the reason (お茶がおいしかったので、アンナは飲みました), a new one in the main
        clause (安かったので、本を買いました).
        """
        link = Link()
        it = pronoun(about.pronoun, about.referent, dropped=True)
        why = Clause(adjective_head(adjective(quality)), it, Mode("past", negative))
        reason = (*why.japanese(ja.before_node, topic=None), Word("ので", link), Word("、"))
        clause = main.clause
        topic: Parts = (*clause.subject.japanese, Word("は")) if main.topic else ()
        shared = about.referent is clause.subject.referent
        skip: tuple[Complement, ...] = ()
        if not shared and about.since < self.sentences:
            skip = tuple(complement for complement in clause.complements if complement.japanese_rank == 7)
            named = tuple(part for complement in skip for part in complement.japanese[:-1])
            reason = (*(named or (Word(text(about.full().japanese), it.link),)), Word("が"), *reason)
        rest = clause.japanese(topic=None, skip=skip)
        japanese = (*topic, *reason, *rest) if shared else (*reason, *topic, *rest)
        self.add((*clause.english(), Word("because", link), *why.english()), japanese)

    def _lead(self, lead: str) -> tuple[Parts, Parts]:
        if not lead:
            return (), ()
        link = Link()
        return (Word(lead, link), Word(",")), (Word(LEADS[lead], link), Word("、"))

    def add(self, english: Parts, japanese: Parts) -> None:
        """A finished sentence on both sides."""
        stop = Link()
        self.english += [*english, Word(".", stop)]
        self.japanese += [*japanese, Word("。", stop)]
        self.sentences += 1


PLAIN_ENOUGH = frozenset(
    ("look for", "find", "lose", "return", "lend", "give", "use", "read", "eat", "drink", "hide", "fix", "draw")
)
"""Verbs whose object Japanese leaves out when it was just spoken of."""

LEADS = {
    "one day": "ある日",
    "then": "それから",
    "after that": "その後",
    "soon": "まもなく",
    "the next day": "次の日",
    "at last": "とうとう",
    "yesterday": "昨日",
    "that evening": "その晩",
}
