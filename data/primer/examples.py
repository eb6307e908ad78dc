"""Draw the examples of docs/primer.md and print their Markdown: `python -m data.primer.examples`."""

from __future__ import annotations

import random
from pathlib import Path

from configs.program import exit_code_of
from data.primer.alignment_picture import links, picture
from data.primer.corpus import sentence_columns
from data.primer.grammar.choice import Chooser
from data.primer.grammar.sentences import CONSTRUCTIONS, finish

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "primer"
EXAMPLES = """
past_event 7, at_hour 1, negation 5, casual_plan 6, existence 11, location 3, how_many 5, question_and_answer 6,
comparison 7, superlative 1, preference_because 1239, preference_because 3535, wish 1, ability 1, permission 4, duty 3,
experience 9, give 9, receive 8, purpose 7, condition 5, object_relative 1, reported_reason 9,
because_of_compared_relatives 3"""
"""Construction and seed of each example."""


def examples() -> list[tuple[str, str, str, str]]:
    """Return (file name, English, Japanese, SVG) for each example."""
    pictures = []
    for name, seed in (example.split() for example in EXAMPLES.split(",")):
        row = sentence_columns(finish(name, CONSTRUCTIONS[name](Chooser(random.Random(int(seed))))))
        pictures.append((f"{name}_{seed}.svg", row["source"], row["target"], picture([links(row)])))
    return pictures


def markdown(file: str, english: str, japanese: str) -> str:
    """Return the Markdown line of an example."""
    return f"![{english} / {japanese}](images/primer/{file})"


def main() -> None:
    """Redraw the pictures of docs/primer.md and print their Markdown lines."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.svg"):
        old.unlink()
    for file, english, japanese, drawn in examples():
        (FOLDER / file).write_text(drawn, encoding="utf-8")
        print(markdown(file, english, japanese))


if __name__ == "__main__":
    raise SystemExit(exit_code_of(main))
