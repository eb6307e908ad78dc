"""Convert stories to rows: the sentences that a plot adds to a `Teller`, in both languages, with antecedents."""

from __future__ import annotations

from typing import Any

from data.primer.characters import Figure
from data.primer.grammar.choice import Chooser
from data.primer.grammar.tree import Word, Written, alignment, antecedents, referents, segments, write
from data.primer.plots import PLOTS, REPEATED, WITH_PEOPLE
from data.primer.splits import split
from data.primer.story_questions import Asked, about_turn, choose, first_word, in_words
from data.primer.storyteller import Teller
from data.primer.stream import Drawn

TWO_ACTS = 0.25
"""Fraction of the stories about people that have two acts with the same people."""
OF_REPETITION = 0.05
"""Weight of a plot in which words are repeated; that of the others is 1."""
WEIGHTS = dict.fromkeys(REPEATED, OF_REPETITION) | {"lesson": 1.0}
"""Induction heads need many lessons."""
LONGEST = 12
"""Maximum number of sentences of a story, without questions."""
QUESTIONS = (0.9, 0.6)
"""Probabilities of a question at the end, and of another one after it."""

WEIGHTED = [((name, plot), WEIGHTS.get(name, 1.0)) for name, plot in PLOTS]


def tell(chooser: Chooser) -> tuple[Teller, str, list[tuple[str, ...]]]:
    """Tell a story; return it with the names of its plots and its combinations of words."""
    while True:
        name, plot = chooser.weighted(WEIGHTED)
        acts = [(name, plot)]
        if name in WITH_PEOPLE and chooser.chance(TWO_ACTS):
            following = chooser.pick(WITH_PEOPLE)
            if following == name:
                continue
            acts.append((following, dict(PLOTS)[following]))
        teller = Teller(chooser, len(acts))
        combinations: list[tuple[str, ...]] = [("story", name, *plot(teller, chooser))]
        if len(acts) > 1:
            name, plot = acts[1]
            teller.next_act()
            combinations.append(("story", name, *plot(teller, chooser)))
            if teller.sentences > LONGEST or ambiguous(teller):
                continue
        return teller, " ".join(name for name, _ in acts), combinations


def ambiguous(teller: Teller) -> bool:
    """Whether a noun of the story means two things: nobody would know which of two balls 'the ball' is."""
    entries = [figure.entry for figure in teller.figures]
    named = {(referent.again, referent.name) for referent in referents(teller.english)}
    return len(set(entries)) < len(entries) or len({again for again, _ in named}) < len(named)


def story_row(chooser: Chooser) -> Drawn:
    """Generate a story row, its combinations of words, and both sides without questions. Columns: text, japanese,
    alignment, words (spans of both sides), antecedents (spans in the text), mentions, referents, names, turns and
    turn_questions (see `training.evaluation.coreference`), questions (see `question_columns`), construction (the names of the plots), and
    split."""
    teller, names, combinations = tell(chooser)
    asked: list[Asked] = []
    for probability in QUESTIONS:
        question = choose(chooser, teller) if chooser.chance(probability) else None
        if question is None or question.wording in [other.question.wording for other in asked]:
            break
        asked.append(in_words(chooser, question))
    source = write([*teller.english, *(part for worded in asked for part in worded.english)], english=True)
    target = write([*teller.japanese, *(part for worded in asked for part in worded.japanese)], english=False)
    columns = question_columns(source, asked, teller.figures)
    story, told = source.text, target.text
    if asked:
        story = story[: columns[0][0] - 1]
        told = told[: place(target, first_word(asked[0].japanese))]
    row = {
        "text": source.text,
        "japanese": target.text,
        "alignment": alignment(source, target),
        "words": [segments(source), segments(target)],
        "antecedents": antecedents(source),
        **mention_columns(source),
        "turn_questions": turn_questions(source, chooser, teller),
        "questions": columns,
        "construction": names,
        "split": split(told, combinations),
    }
    return row, combinations, (story, told)


def place(written: Written, word: Word) -> int:
    """Return the start of a word in a text."""
    return next(start for other, start, _ in written.words if other is word)


def question_columns(written: Written, asked: list[Asked], figures: list[Figure]) -> list[list[int]]:
    """Return [start of the question, start of the answer, end of the noun in it, start, end of the mention in the story
    that the answer repeats, referent, all referents of its kind] of each question (see `training.evaluation.coreference`). The mention
    is the last one by a noun up to the sentence that tells the answer."""
    known: dict[str, int] = {}
    mentions = sorted(written.mentions, key=lambda mention: (mention.start, mention.end))
    for mention in mentions:
        known.setdefault(mention.referent.name, len(known))
    stops = [end for word, _, end in written.words if word.text == "."]
    rows = []
    for worded in asked:
        start, answer = (place(written, first_word(worded.english)), place(written, first_word(worded.answer.english)))
        referent, last = worded.question.answer.referent, stops[worded.question.fact.sentence]
        told = [m for m in mentions if m.referent is referent and not m.pronoun]
        spoken = next(m for m in told if m.start == answer)
        source = [m for m in told if m.end <= last][-1]
        kind = {f.referent.name for f in figures if f.animate == worded.question.answer.animate}
        alike = sorted(known[name] for name in kind)
        rows.append([start, answer, spoken.end, source.start, source.end, known[referent.name], *alike])
    return rows


def turn_questions(written: Written, chooser: Chooser, teller: Teller) -> list[str]:
    """Return the question for each turn, in order (see `about_turn`)."""
    turns = sorted((mention for mention in written.mentions if mention.rival), key=lambda mention: mention.start)
    return [about_turn(chooser, teller, written.text.count(". ", 0, turn.start), turn) for turn in turns]


def mention_columns(written: Written) -> dict[str, Any]:
    """Return the columns for `training.evaluation.coreference`. Referents are numbered in order of appearance, one per name."""
    known: dict[str, int] = {}
    columns: dict[str, Any] = {"mentions": [], "referents": [], "names": [], "turns": []}
    for mention in sorted(written.mentions, key=lambda mention: (mention.start, mention.end)):
        number = known.setdefault(mention.referent.name, len(known))
        if number == len(columns["names"]):
            columns["referents"].append(mention.referent.pronoun)
            columns["names"].append(mention.referent.again)
        columns["mentions"].append([mention.start, mention.end, number, int(mention.pronoun)])
        if mention.rival is not None:
            columns["turns"].append([mention.start, mention.end, number, known[mention.rival.name]])
    return columns
