"""Track the mentions in a story to decide where English uses a pronoun and where Japanese omits the word.

English uses a pronoun for the subject of the previous sentence, and for a thing or person mentioned in the last
sentences unless another referent with the same pronoun was mentioned too. Japanese omits a continuing subject, and a
thing just mentioned if the verb is specific enough (探しました, 見つけました); people, and things with other verbs, are repeated.
が marks a new referent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from data.primer.characters import Fact, Figure, Statement
from data.primer.constructions.adjectives import comparing, preferring, turned, very_head, with_reason
from data.primer.constructions.combined import reason
from data.primer.grammar import japanese as ja
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import Clause, Complement, Head, Mode, adjective_head, marked, verb_head
from data.primer.grammar.noun_phrases import NounPhrase, pronoun, together
from data.primer.grammar.tree import Link, Part, Parts, Referent, Word, text
from data.primer.lexicon import POSITIONS, Name, Noun, adjective, noun, verb


class Teller:
    """Builds a story sentence by sentence, in both languages at once."""

    def __init__(self, chooser: Chooser, acts: int = 1) -> None:
        self.chooser = chooser
        self.english: list[Part] = []
        self.japanese: list[Part] = []
        self.sentences = 0
        self.cast: tuple[Figure, Figure] | None = None
        self.figures: list[Figure] = []
        """All figures in the order of their introduction."""
        self.facts: list[Fact] = []
        self._turn = False
        self._acts = acts
        self._later = False
        """Whether the second act has begun, but no sentence says so yet."""
        self._topic: Figure | None = None
        self._entered: Figure | None = None
        self._recent: list[Figure] = []
        self._now: list[Figure] = []
        self._called: dict[Figure, tuple[bool, Referent | None]] = {}
        self._last_lead = ""
        self._since_yesterday = False

    def next_act(self) -> None:
        """Begin the second act: the first mention of each person is a name again."""
        self._later = True
        self._topic, self._entered, self._recent, self._called = None, None, [], {}

    # Mentions

    def meant(self, figure: Figure, rival: Figure, named: float = 0.0) -> Figure:
        """Return the figure; its next mention is a pronoun that could also refer to the rival, so that only the meaning
        of the sentence identifies the antecedent.

        Used for turns, in which each of the two figures is the antecedent equally often. A figure with another pronoun
        is not counted as a rival. With probability `named`, the mention is the name instead (`because` draws it
        itself): such stories provide the training signal for the pronouns.
        """
        self.by_pronoun(figure)
        spelled = self.chooser.chance(named)
        self._called[figure] = not spelled, rival.referent if rival.pronoun == figure.pronoun else None
        return figure

    def by_pronoun(self, figure: Figure) -> Figure:
        """Return the figure; its next mention is a pronoun, regardless of other recent mentions."""
        assert figure.introduced, f"{figure.referent.name}: no pronoun before the noun"
        self._called[figure] = True, None
        return figure

    def _mention(self, figure: Figure) -> None:
        if not figure.introduced:
            figure.introduced, figure.since = True, self.sentences
            self.figures.append(figure)
            if figure.owner:
                self._mention(figure.owner)
        if figure not in self._now:
            self._now.append(figure)

    def _clear(self, figure: Figure) -> bool:
        """Whether the figure is the only recently mentioned figure that agrees with its pronoun."""
        around = [other for other in (*self._recent, *self._now) if other.pronoun == figure.pronoun]
        return figure in around and all(other is figure for other in around)

    def subject(self, figure: Figure, again: bool = False) -> tuple[NounPhrase, str | None]:
        """Build the figure as subject, and its Japanese particle (None: omitted). `again`: not first in a sentence."""
        new, entered = not figure.introduced, self._entered
        self._entered = None
        continuing = self._topic is figure
        by_itself = (
            figure.introduced
            and (continuing or self._clear(figure))
            and ((again and continuing) or self.chooser.chance(AGAIN_BY_PRONOUN[continuing]))
        )
        use_pronoun, rival = self._called.pop(figure, (by_itself, None))
        self._turn = rival is not None
        full = figure.full()
        phrase = pronoun(figure.pronoun, figure.referent, False, full.japanese, rival) if use_pronoun else full
        self._mention(figure)
        if continuing and use_pronoun:
            return phrase, "は" if entered is figure else None
        if new and figure.owner is None and (self.sentences or not isinstance(figure.entry, Name)):
            self._entered = figure
            return phrase, "が"
        return phrase, "は"

    def object(self, figure: Figure, action: str = "") -> NounPhrase:
        """Build the noun phrase for a figure of the story as an object; with a verb in `PLAIN_ENOUGH`, Japanese omits
        an object that is a thing or an animal."""
        clear = self._clear(figure)
        by_itself = figure.introduced and clear and self.chooser.chance(0.8)
        use_pronoun, rival = self._called.pop(figure, (by_itself, None))
        if use_pronoun:
            unsaid = clear and not isinstance(figure.entry, Name) and action in PLAIN_ENOUGH
            phrase = pronoun(figure.pronoun, figure.referent, unsaid, figure.full().japanese, rival)
        else:
            phrase = figure.full()
        self._mention(figure)
        return phrase

    def _statement(self, who: Figure, clause: Clause, topic: str | None) -> Statement:
        """Wrap a clause, and record its mentions as the most recent mentions."""
        self._follow(who, self._now)
        return Statement(who, clause, topic, tuple(self._recent))

    def _follow(self, topic: Figure, mentioned: Iterable[Figure]) -> None:
        self._topic, self._recent, self._now = topic, list(mentioned), []

    # Clauses

    def doing(
        self,
        who: Figure,
        action: str,
        what: Figure | None = None,
        *more: Complement,
        to: Figure | None = None,
        negative: bool = False,
        modality: str = "",
        toward: str | None = None,
        again: bool = False,
        favor: bool = False,
    ) -> Statement:
        """Build a clause with a verb. `to`: recipient; `toward`: goal; `again`: a later clause of the same sentence;
        `favor`: てくれた."""
        subject, topic = self.subject(who, again)
        turn = self._turn
        complements: list[Complement] = list(more)
        if toward:
            lexeme = verb(action, noun(toward))
            complements.append(marked(self.chooser.goal(noun(toward)), "", lexeme.particle, 0, 7))
        else:
            lexeme = verb(action, what.entry if what and isinstance(what.entry, Noun) else None)
        if what:
            complements.append(marked(self.object(what, action), "", lexeme.particle, 0, 7))
        if to:
            complements.append(marked(self.object(to), "to", "に", 1, 6))
        if not negative and (what or toward or not lexeme.transitive):  # nobody asks 'Who bought?'
            self.facts.append(Fact(who, action, what, to, toward, modality, turn=turn, sentence=self.sentences))
        head = verb_head(lexeme, ja.favor(lexeme.predicate) if favor else None)
        clause = Clause(head, subject, Mode("past", negative, modality), tuple(complements))
        return self._statement(who, clause, topic)

    def being(self, who: Figure, quality: str, *, very: bool = False, too: bool = False) -> Statement:
        """Build a clause with an adjective, optionally preceded by 'very' or 'too'."""
        subject, topic = self.subject(who)
        degree = "too" if too else ""
        self.facts.append(Fact(who, quality, state=True, degree=degree, turn=self._turn, sentence=self.sentences))
        head, ending = quality_head(quality, very=very, too=too)
        return self._statement(who, Clause(head, subject, Mode("past"), ending=ending), topic and "は")

    def becoming(self, who: Figure, quality: str) -> Statement:
        """Build a clause with 'become'. Example: It became big."""
        subject, topic = self.subject(who)
        attribute = adjective(quality)
        return self._statement(
            who, Clause(verb_head(verb("become")), subject, Mode("past"), (turned(attribute),)), topic
        )

    def comparing(self, who: Figure, quality: str, standard: Figure) -> Statement:
        """Build a clause with a comparison. Example: The rabbit was faster than the turtle."""
        subject, topic = self.subject(who)
        head = comparing(adjective(quality), self.object(standard))
        return self._statement(who, Clause(head, subject, Mode("past")), topic)

    def happening(self, what: Figure, action: str) -> Statement:
        """Build a clause about an unexpected event; Japanese marks its subject with が. Example: It broke."""
        return replace(self.doing(what, action), topic="が")

    def into(self, figure: Figure, preposition: str) -> Complement:
        """Build a complement that names the place where a thing ends up. Example: in the box, on the floor - 箱に."""
        return marked(self.object(figure), preposition, "に", 1, 8)

    def onto(self, figure: Figure) -> Complement:
        """Build a complement that names the surface where a thing ends up. Example: on the plate - 皿の上に."""
        on = next(position for position in POSITIONS if position.english == "on")
        link, place = Link(), self.object(figure)
        target = (*place.japanese, Word(on.writing, link), Word("に", link))
        return Complement((Word("on", link), *place.as_object), target, 1, 8, phrase=place)

    def doing_to_both(self, who: Figure, action: str, first: Figure, second: Figure, *more: Complement) -> Statement:
        """Build a clause with two objects. Example: She saw a pie and a cake in the bakery."""
        subject, topic = self.subject(who)
        both = together(first.full(), second.full())
        self._mention(first)
        self._mention(second)
        complements = (*more, marked(both, "", "を", 0, 7))
        for what in (first, second):
            self.facts.append(Fact(who, action, what, sentence=self.sentences))
        lexeme = verb(action, first.entry if isinstance(first.entry, Noun) else None)
        return self._statement(who, Clause(verb_head(lexeme), subject, Mode("past"), complements), topic)

    def preferring(self, who: Figure, better: Figure, worse: Figure, quality: str, how: str) -> None:
        """Add a preference with its reason. Example: She preferred the pie over the cake because it was sweeter."""
        subject, topic = self.subject(who)
        first, second = better.full(), worse.full()
        main = preferring(self.chooser, subject, first, second, Mode("past"), choice=True)
        meant = worse if how == "too" else better
        self.facts.append(Fact(meant, quality, state=True, degree=how, turn=True, sentence=self.sentences))
        english, japanese, _ = with_reason(main, first, second, adjective(quality), how, topic)
        self._follow(who, (who, worse if how == "too" else better))
        self.add(english, japanese)

    # Sentences

    def tell(self, statement: Statement, *leads: str) -> None:
        """Add a clause as a sentence, optionally after a connective chosen from `leads` ('then', 'one day')."""
        lead = self.chooser.pick(leads) if len(leads) > 1 else "".join(leads)
        lead = self._scene(lead) if leads else lead
        opening, start = self._lead(lead)
        new = lead in ("one day", LATER) and statement.topic is None
        topic = "は" if new else statement.topic  # a new scene repeats the subject
        self.add((*opening, *statement.clause.english()), (*start, *statement.clause.japanese(topic=topic)))

    def joined(self, first: Statement, word: str, second: Statement, lead: str = "") -> None:
        """Add two clauses joined by 'so' or 'but'."""
        opening, start = self._lead(self._scene(lead))
        link = Link()
        form, particle = {"so": (ja.before_node, "ので"), "but": (None, "が")}[word]
        known = tuple(c for c in second.clause.complements if c.of is first.who.referent)
        # The subject of a reason takes が if the main clause has another subject: 時計が古かったので、ケンは….
        topic = "が" if word == "so" and first.topic and second.topic else first.topic
        english = (*opening, *first.clause.english(), Word(","), Word(word, link), *second.clause.english())
        reason = (*start, *first.clause.japanese(form, topic=topic), Word(particle, link), Word("、"))
        self.add(english, (*reason, *second.clause.japanese(topic=second.topic, skip=known)))
        self._follow(second.who, (*first.mentioned, *second.mentioned))

    def because(self, main: Statement, why: Statement) -> None:
        """Add a clause with its reason, which comes second in English and first in Japanese. The subject of the reason
        is a pronoun or a repeated name.

        In Japanese, a shared subject appears once (エミは親切だったので、傘を貸しました). A different subject appears in the reason and
        is omitted in the main clause (アンナが困っていたので、エミは傘を貸しました); a new thing stays in the main clause if its quality
        cannot describe a person (安かったので、エミは本を買いました).
        """
        link, clause = Link(), main.clause
        known = isinstance(why.who.entry, Name) or why.who.since < self.sentences  # not 'because a duck ate it'
        rivals = any(other is not why.who and other.pronoun == why.who.pronoun for other in main.mentioned)
        if known and rivals and self.chooser.chance(NAMED):
            spelled = why.who.full()
            why = replace(why, clause=replace(why.clause, subject=spelled))
            if why.who is main.who:  # not 'she helped Lisa because Emi was kind'
                clause = replace(clause, subject=spelled)
        words = reason(why.clause, link)
        shared = why.who is main.who
        # The subject of the main clause is repeated: a reason without a subject is ambiguous; a new subject takes が.
        topic = (*clause.subject.japanese, Word("が" if main.topic == "が" and not shared else "は"))
        new = not why.who.animate and why.who.since == self.sentences and why.clause.head.lemma not in LOOKS
        told = {complement.of for complement in why.clause.complements if complement.japanese} - {None}
        skip = tuple(complement for complement in clause.complements if complement.of in told)
        if not shared and not new:
            about = tuple(complement for complement in clause.complements if complement.of is why.who.referent)
            if clause.head.lemma not in NEVER_BARE and not (skip and clause.head.lemma == "give"):
                skip += about
            named = tuple(part for complement in about if complement in skip for part in complement.japanese[:-1])
            again = Word(text(why.who.full().japanese), why.clause.subject.link)
            words = (*(named or (again,)), Word("が"), *words)
        rest = clause.japanese(topic=None, skip=skip)
        japanese = (*topic, *words, *rest) if shared else (*words, *topic, *rest)
        self.add((*clause.english(), Word("because", link), *why.clause.english()), japanese)
        self._follow(main.who, (*main.mentioned, *why.mentioned))

    def _scene(self, lead: str) -> str:
        """Return the connective, or the one that opens the second act."""
        if self._later:
            self._later = False
            return LATER
        return "one day" if lead == "yesterday" and self._acts > 1 else lead

    def _lead(self, lead: str) -> tuple[Parts, Parts]:
        """Build the connective: never the previous sentence's connective, nor 'the next day' after 'yesterday'."""
        if lead and lead == self._last_lead:
            lead = "then" if lead == "after that" else "after that"
        if lead == "yesterday":
            self._since_yesterday = True
        if lead == "the next day" and self._since_yesterday:
            lead = ""
        self._last_lead = lead
        if not lead:
            return (), ()
        link = Link()
        return (Word(lead, link), Word(",")), (Word(LEADS[lead], link), Word("、"))

    def add(self, english: Parts, japanese: Parts) -> None:
        """Append a sentence in both languages."""
        stop = Link()
        self.english += [*english, Word(".", stop)]
        self.japanese += [*japanese, Word("。", stop)]
        self.sentences += 1


def quality_head(quality: str, *, very: bool = False, too: bool = False) -> tuple[Head, Link]:
    """Return the head of a clause with an adjective, and the link of its ending."""
    attribute, ending, link = adjective(quality), Link(), Link()
    if too:
        english = (Word("too", ending), Word(attribute.english, link, True))
        return Head(ja.excess(attribute.predicate), None, english, link=link), ending
    return very_head(attribute) if very else adjective_head(attribute), ending


NAMED = 0.5
"""Fraction of the turns that use a name instead of the pronoun: they tell a model who is kind, the one who helps."""
AGAIN_BY_PRONOUN = (0.55, 0.85)
"""Fraction of the subjects that are pronouns where a pronoun is clear: of other subjects, and of the same subject as in
the sentence before."""
PLAIN_ENOUGH = frozenset(("look for", "find"))
"""Verbs whose object Japanese omits when the object was just mentioned."""
NEVER_BARE = frozenset(("visit", "draw"))
"""Verbs that keep their Japanese object even when the same sentence has just mentioned it."""
LOOKS = frozenset(("beautiful", "pretty", "cute"))
"""Qualities of things that can also describe a person."""

LATER = "a week later"
"""Connective that opens the second act."""
LEADS = {
    LATER: "一週間後",
    "one day": "ある日",
    "then": "それから",
    "after that": "その後",
    "soon": "まもなく",
    "the next day": "次の日",
    "at last": "やっと",
    "yesterday": "昨日",
    "that evening": "その晩",
}
