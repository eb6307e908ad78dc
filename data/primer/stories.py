"""Stories as rows: a plot told by a `Teller`, written on both sides, with the antecedents of its pronouns."""

from __future__ import annotations

from typing import Any

from data.primer.coreference import mentions
from data.primer.grammar.choice import Chooser
from data.primer.grammar.tree import alignment, antecedents, segments, write
from data.primer.plots import PLOTS
from data.primer.splits import split
from data.primer.telling import Teller


def story_row(chooser: Chooser) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """One story: text, japanese, alignment, words of both sides, antecedents (spans in text), mentions, referents and
    names (see `coreference`), construction (the plot's name), split."""
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
        **mentions(source),
        "construction": name,
        "split": split(target.text, [combination]),
    }
    return row, [combination]
