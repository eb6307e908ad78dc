"""Convert stories to rows: the sentences that a plot adds to a `Teller`, in both languages, with antecedents."""

from __future__ import annotations

from typing import Any

from data.primer.grammar.choice import Chooser
from data.primer.grammar.tree import Written, alignment, antecedents, segments, write
from data.primer.plots import PLOTS
from data.primer.splits import split
from data.primer.telling import Teller


def story_row(chooser: Chooser) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Generate a story row and its combinations of words. Columns: text, japanese, alignment, words (spans of both
    sides), antecedents (spans in the text), mentions, referents, names and turns (see `data.coreference`), construction
    (the name of the plot), split."""
    name, plot = chooser.pick(PLOTS)
    teller = Teller(chooser)
    combination = ("story", name, *plot(teller, chooser))
    source, target = write(teller.english, english=True), write(teller.japanese, english=False)
    row = {
        "text": source.text,
        "japanese": target.text,
        "alignment": alignment(source, target),
        "words": [segments(source), segments(target)],
        "antecedents": antecedents(source),
        **mention_columns(source),
        "construction": name,
        "split": split(target.text, [combination]),
    }
    return row, [combination]


def mention_columns(written: Written) -> dict[str, Any]:
    """Return the columns for `data.coreference`. Referents are numbered in order of appearance, one per name."""
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
