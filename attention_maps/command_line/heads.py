"""`python -m attention_maps heads`: print the measures and the label of every head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attention_maps.command_line.loading import also, existing_run, load
from attention_maps.draw.labels import fitted, printable, width
from attention_maps.record.head_measures_and_labels import displayed
from attention_maps.record.recording import KINDS, Kind, Recording

MEASURES = {
    "entropy": ("entropy", "{:.2f}", "mean entropy of the attention distribution, in nats"),
    "spread": ("spread", "{:.0%}", "entropy relative to uniform attention: 100% is uniform"),
    "first": ("first", "{:.0%}", "mean attention to the first token"),
    "special": ("special", "{:.0%}", "mean attention to special tokens"),
    "previous": ("previous", "{:.0%}", "mean attention to the previous token"),
    "diagonal": ("diagonal", "{:.0%}", "mean attention to the token itself (diagonal)"),
    "induction": ("induction", "{:.0%}", "random words, repeated once: mean attention to the token that comes next"),
    "duplicate": ("duplicate", "{:.0%}", "random words, repeated once: mean attention to the first occurrence"),
    "repeat_previous": ("random prev.", "{:.0%}", "random words, repeated once: mean attention to the previous token"),
    "copying": ("copying", "{:+.2f}", "random words: correlation of attention and what the head adds to the logits"),
    "coverage": ("coverage", "{:.0%}", "source tokens that are the argmax of at least one row"),
    "alignment_error": ("AER", "{:.1f}", "alignment error rate, in percent; lower is better"),
    "antecedent": ("antecedent", "{:.1f}", "pronouns whose antecedent gets the most attention, in percent"),
    "antecedent_agreeing": ("agreeing", "{:.1f}", "the same, only among nouns that agree with the pronoun"),
    "importance": (
        "importance",
        "{:+.3f}",
        "how much the model needs the head: the rise of its loss per token without it",
    ),
}
"""Column heading, number format and explanation of each measure of a head."""


@dataclass
class HeadsSettings:
    """Settings of `heads`: the recording."""

    step: str = "last"
    """A recorded step, `first` or `last`; or the name of a recording, such as `generated_00001`."""


def show_heads(run: str, settings: HeadsSettings, problems: Sequence[str]) -> None:
    """Print the measures of each head, and its label if a rule matches."""
    with also(problems):
        _, title, recording = load(existing_run(run), settings.step)
    measures = recording.measures
    print(title)
    explained = []
    for kind in KINDS:
        names = [name for name in MEASURES if measures.get(name, {}).get(kind)]
        if names:
            print("\n" + "\n".join(_grid(_rows(recording, kind, names))))
        explained += [name for name in names if name not in explained]
    print()
    for name in explained:
        print(f"{MEASURES[name][0]:<10}  {MEASURES[name][2]}")
    print("\n".join(_scores(recording)), end="\n" if recording.scores else "")


def _rows(recording: Recording, kind: Kind, names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the cells of a table as strings: a header row, then one row per head."""
    measures, labels = recording.measures, recording.labels
    yield [kind, "head", *(MEASURES[name][0] for name in names), "label"]
    for layer, heads in enumerate(measures[names[0]][kind]):
        for head in range(len(heads)):
            numbers = [measures[name][kind][layer][head] for name in names]
            cells = [
                "" if math.isnan(number) else MEASURES[name][1].format(number)
                for name, number in zip(names, numbers, strict=True)
            ]
            label = displayed(labels[kind][layer][head]) if kind in labels else ""
            yield [f"layer {recording.layer_number(kind, layer)}", str(head), *cells, printable(label)]


def _grid(rows: Iterator[list[str]]) -> Iterator[str]:
    """Align a table: the first and last columns to the left, the numbers to the right."""
    table = list(rows)
    widths = [max(width(row[column]) for row in table) for column in range(len(table[0]))]
    for first, *middle, last in table:
        cells = [cell.rjust(size) for cell, size in zip(middle, widths[1:-1], strict=True)]
        yield "  ".join([fitted(first, widths[0]), *cells, last]).rstrip()


def _scores(recording: Recording) -> Iterator[str]:
    """Yield lines that compare the scores against gold labels with model-free baselines, best first."""
    for measure, sign in (("alignment_error", 1), ("antecedent", -1), ("antecedent_agreeing", -1)):
        rows = sorted((s for s in recording.scores if s.measure == measure), key=lambda score: sign * score.value)
        if rows:
            yield f"\n{MEASURES[measure][2]}"
        for row in rows:
            place = "" if row.head is None or "layer" in row.name else f" (layer {row.layer}, head {row.head})"
            yield f"  {row.value:>5.1f}  {printable(row.name)}{place}" + ("" if row.kind else "  (baseline)")
