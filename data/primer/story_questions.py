"""End a story with a question about it and its answer: "Who was kind? Emi was."

The plot knows who did what. No rule about positions answers the questions: the answer is drawn first, with equal
probability for everybody that the story says something about, and then a question to which it is the only answer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from data.primer.characters import Fact, Figure
from data.primer.constructions.adjectives import more
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import Clause, Complement, Mode, marked, verb_head
from data.primer.grammar.noun_phrases import NounPhrase, asked
from data.primer.grammar.tree import Link, Mention, Parts, Word, words, write
from data.primer.lexicon import Noun, adjective, noun, verb
from data.primer.storyteller import Teller, quality_head

OTHER_NAMED = 0.12
"""Fraction of the questions about somebody that name somebody else: whoever is not in the question answers them."""
TURN = 3.0
"""Weight of a question about a turn, relative to other questions with the same answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a story, not yet in words."""

    fact: Fact
    of_subject: bool
    """Whether it asks for the subject of the clause rather than for its object."""

    @property
    def answer(self) -> Figure:
        """The figure that answers the question."""
        if self.of_subject:
            return self.fact.who
        assert self.fact.what is not None
        return self.fact.what

    @property
    def named(self) -> tuple[Figure, ...]:
        """The figures that the question names."""
        fact = self.fact
        return tuple(figure for figure in (fact.who, fact.what, fact.to) if figure and figure is not self.answer)

    @property
    def wording(self) -> tuple[object, ...]:
        """Key of a question: equal for questions that ask the same."""
        fact = self.fact
        asked_for = (None, fact.what) if self.of_subject else (fact.who, None)
        return fact.state, fact.action, fact.degree, fact.modality, fact.to, fact.toward, *asked_for


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in both languages, with the words at which it and its answer begin."""

    question: Question
    english: Parts
    japanese: Parts
    answer: NounPhrase


def questions(teller: Teller) -> list[Question]:
    """Return all questions about a story that have one answer."""
    names: dict[str, list[Figure]] = defaultdict(list)
    for figure in teller.figures:
        names[figure.referent.again].append(figure)
    alone = {figure for namesakes in names.values() if len(namesakes) == 1 for figure in namesakes}
    candidates = [Question(fact, True) for fact in teller.facts]
    candidates += [Question(fact, False) for fact in teller.facts if fact.what]
    answers: dict[tuple[object, ...], set[Figure]] = defaultdict(set)
    for question in candidates:
        answers[question.wording].add(question.answer)
    return [
        question
        for question in candidates
        if question.fact.degree in ("", "too")
        and len(answers[question.wording]) == 1
        and alone.issuperset((question.answer, *question.named))
    ]


def choose(chooser: Chooser, teller: Teller) -> Question | None:
    """Draw a question: first its answer, then one of the questions with this answer; None if a single person, or a
    single thing, could be the answer."""
    people: dict[Figure, list[Question]] = defaultdict(list)
    naming: dict[Figure, list[Question]] = defaultdict(list)
    things: dict[Figure, list[Question]] = defaultdict(list)
    for question in questions(teller):
        if not question.answer.animate:
            things[question.answer].append(question)
        elif any(figure.animate for figure in question.named):
            naming[question.answer].append(question)
        else:
            people[question.answer].append(question)
    kinds = [group for group in (people, naming, things) if len(group) > 1]
    weights = {id(people): 1.0 - OTHER_NAMED, id(naming): OTHER_NAMED, id(things): 0.5}
    if not kinds:
        return None
    options = chooser.weighted([(group, weights[id(group)]) for group in kinds])
    answer = chooser.pick(sorted(options, key=teller.figures.index))
    return chooser.weighted([(question, TURN if question.fact.turn else 1.0) for question in options[answer]])


def in_words(chooser: Chooser, question: Question) -> Asked:
    """Write a question and its answer in both languages."""
    fact, answer = question.fact, question.answer
    person = answer.animate
    answered = answer.full()
    stop, end, link = Link(), Link(), Link()
    if question.of_subject:
        clause, _ = _clause(chooser, fact, asked("who" if person else "what", "誰" if person else "何", person), None)
        english, japanese = clause.english(), clause.japanese(topic="が")
        be = fact.state or fact.modality == "progressive"
        helper: Parts = (Word(("were" if answer.plural else "was") if be else "did", link),)
        copula: Parts = (Word("です", link),)
    else:
        what = asked("whom" if person else "what", "誰" if person else "何", person)
        clause, gap = _clause(chooser, fact, fact.who.full(), what)
        assert gap is not None
        english, japanese = (*gap.english, *clause.english(gap=gap)), clause.japanese()
        helper, copula = (), (Word("です"),)
    return Asked(
        question,
        (*english, Word("?", stop), *answered.english, *helper, Word(".", end)),
        (*japanese, Word("か", stop), Word("。", stop), *answered.japanese, *copula, Word("。", end)),
        answered,
    )


def _clause(
    chooser: Chooser, fact: Fact, subject: NounPhrase, what: NounPhrase | None
) -> tuple[Clause, Complement | None]:
    """Return the clause of a fact with another subject or object, and the complement that asks."""
    if fact.state:
        head, ending = quality_head(fact.action, too=fact.degree == "too")
        if fact.degree in ("more", "less"):  # in English only: nobody asks this at the end of a story
            attribute, word = adjective(fact.action), Word(fact.action, ending, True)
            english = more(attribute, ending, ending) if fact.degree == "more" else (Word("less", ending), word)
            head = replace(head, english=english)
        return Clause(head, subject, Mode("past"), ending=ending), None
    complements: list[Complement] = []
    entry = fact.what.entry if fact.what else None
    if fact.toward:
        lexeme = verb(fact.action, noun(fact.toward))
        complements.append(marked(chooser.goal(noun(fact.toward)), "", lexeme.particle, 0, 7))
    else:
        lexeme = verb(fact.action, entry if isinstance(entry, Noun) else None)
    gap = None
    if fact.what:
        complements.append(marked(what or fact.what.full(), "", lexeme.particle, 0, 7))
        gap = complements[-1] if what else None
    if fact.to:
        complements.append(marked(fact.to.full(), "to", "に", 1, 6))
    clause = Clause(verb_head(lexeme), subject, Mode("past", False, fact.modality), tuple(complements), bool(what))
    return clause, gap


def about_turn(chooser: Chooser, teller: Teller, sentence: int, turn: Mention) -> str:
    """Return the question that resolves a turn and its answer, with {} in place of the noun: 'Who was kind? {} was.'
    Empty if another clause of the story answers the same question too, by name or for somebody else."""
    told = [fact for fact in teller.facts if fact.sentence == sentence]
    candidates = [Question(fact, True) for fact in told if fact.who.referent is turn.referent]
    candidates = candidates or [
        Question(fact, False) for fact in told if fact.what and fact.what.referent is turn.referent
    ]
    if not candidates:
        return ""
    question = candidates[-1]  # the reason comes last
    alike = [Question(fact, question.of_subject) for fact in teller.facts if question.of_subject or fact.what]
    if sum(other.wording == question.wording for other in alike) > 1:
        return ""
    text = write(in_words(chooser, question).english, english=True).text
    asked, _, answer = text.partition("? ")
    return f"{asked}? {{}}{answer[len(question.answer.referent.again) :]}"


def first_word(parts: Parts) -> Word:
    """Return the first word of a side."""
    return next(words(parts))
