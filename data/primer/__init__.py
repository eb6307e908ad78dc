"""The embedded corpus: a small English-Japanese world, written by a synchronous grammar, with every link known.

`rows("sentences", 40000, seed=1)` gives sentence pairs with gold word alignments; `rows("stories", …)` gives short
English stories with their Japanese and the antecedents of their pronouns. `python -m data.primer --help` prints them.

How it is built: `lexicon/` (words as tables) -> `choice` (what makes sense together) -> `noun_phrases`, `clauses` (both
languages at once) -> `constructions/`, `plots/` -> `tree` (text, spans, mentions) -> `splits`. A page about it:
docs/primer.md.
"""

from __future__ import annotations

from data.primer.corpus import rows

__all__ = ["rows"]
