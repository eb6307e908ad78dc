"""`python -m attention_maps list` and `heads`: what runs have recorded, and what their heads do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attention_maps.ask.questions import chosen_recording, existing_run, load, reading, recorded_runs, recordings
from attention_maps.draw.labels import fitted, printable, visible, width
from attention_maps.files import store
from attention_maps.record.measures import head_labels, head_measures
from attention_maps.record.recording import KINDS, Kind, Measures, Recording, Sample
from configs.errors import UserError
from configs.program import expanded

MEASURES = {
    "entropy": ("entropy", "{:.2f}", "mean entropy of the rows in nats"),
    "spread": ("spread", "{:.0%}", "entropy as a share of looking at everything alike"),
    "first": ("first", "{:.0%}", "attention to the first token"),
    "special": ("special", "{:.0%}", "attention to special tokens"),
    "previous": ("previous", "{:.0%}", "attention to the token before"),
    "diagonal": ("diagonal", "{:.0%}", "attention to the token itself"),
    "coverage": ("coverage", "{:.0%}", "source tokens that some row looks at most"),
    "alignment_error": ("AER", "{:.1f}", "alignment error rate in percent; lower is better"),
    "antecedent": ("antecedent", "{:.1f}", "percent of the pronouns whose antecedent gets the most attention"),
    "antecedent_agreeing": ("agreeing", "{:.1f}", "the same among the nouns that agree with the pronoun"),
    "importance": ("importance", "{:+.3f}", "rise of the validation loss in nats without the head"),
}
"""Of the measures of heads their name, how a number is written, and what it is."""

Labels = Mapping[str, Sequence[Sequence[str]]]
"""What every head does, in a word: [kind][layer][head]."""


@dataclass
class ListSettings:
    """`list` has no settings."""


@dataclass
class HeadsSettings:
    """Which recording."""

    step: str = "last"
    """A recorded step, `first` or `last`; or the name of a recording: `generated_00001`."""


def list_recordings(folder: str, settings: ListSettings, problems: Sequence[str]) -> None:
    """Print the runs in a folder, or one run, with their recorded steps, samples and maps."""
    found = recorded_runs(expanded(folder))
    if not expanded(folder).is_dir():
        problems = [*problems, f"{folder}: no such folder"]
    elif not found:
        problems = [*problems, f"{folder}: no recordings of attention in it (attention.enabled=true makes them)"]
    if problems:
        raise UserError(*problems)
    print("\n\n".join("\n".join(_run(run)) for run in found))


def _run(run: Path) -> Iterator[str]:
    yield printable(str(run))
    try:
        names = list(recordings(run))
    except OSError as error:
        yield from _line("unreadable", f"{error.filename}: {error.strerror}")
        return
    steps = [str(int(name.removeprefix("step_"))) for name in names if name.startswith("step_")]
    generated = [name for name in names if name.startswith("generated_")]
    yield from _line("steps", _thinned(steps))
    yield from _line("generated", _thinned(generated))
    try:
        _, file = chosen_recording(run, "last")
        with reading(file):
            recording, kinds = store.outline(file)
    except UserError as error:
        yield from _line("unreadable", str(error))
        return
    for number, sample in enumerate(recording.samples):
        yield from _line("samples" if number == 0 else "", f"{number}  {sample.name}: {_text(sample)}")
    yield from _line("samples", "" if recording.samples else "none, measures only")
    for kind, shape in kinds.items():
        yield from _line(kind, "{layers} layers × {heads} heads".format(**shape) + _labelled(recording.labels, kind))


def _line(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<10}  {printable(text)}"


def _thinned(names: Sequence[str], most: int = 12) -> str:
    shown = names if len(names) <= most else [*names[: most - 2], "…", names[-1]]
    return ", ".join(shown) + (f"  ({len(names)})" if len(names) > most else "")


def _text(sample: Sample, columns: int = 48) -> str:
    """The beginning of what the decoder reads, and of its source."""
    sides = [tokens for tokens in (sample.source, sample.reads) if tokens is not None]
    texts = (
        visible("".join(piece for piece, mark in zip(t.pieces, t.special, strict=True) if not mark)) for t in sides
    )
    plain = (text.replace("▁", " ").strip() for text in texts)
    return " → ".join(fitted(text, columns).rstrip() if width(text) > columns else text for text in plain)


def _labelled(labels: Labels, kind: str) -> str:
    """Heads that have a label: `; previous token: 0.2, 1.0` (layer.head)."""
    heads: dict[str, list[str]] = {}
    for layer, row in enumerate(labels.get(kind, [])):
        for head, label in enumerate(row):
            if label:
                heads.setdefault(label, []).append(f"{layer}.{head}")
    return "".join(f"; {printable(label)}: {', '.join(places)}" for label, places in heads.items())


def show_heads(run: str, settings: HeadsSettings, problems: Sequence[str]) -> None:
    """Print what each head does: its measures, and its label where a rule fits."""
    try:
        _, title, recording = load(existing_run(run), settings.step)
    except UserError as error:
        raise UserError(*problems, *error.args) from None
    if problems:
        raise UserError(*problems)
    measures = recording.measures or head_measures(recording.samples)  # older recordings hold maps alone
    labels = recording.labels or head_labels(head_measures(recording.samples))
    print(title)
    explained = []
    for kind in KINDS:
        names = [name for name in MEASURES if measures.get(name, {}).get(kind)]
        if names:
            print("\n" + "\n".join(_grid(_rows(measures, labels, kind, names))))
        explained += [name for name in names if name not in explained]
    print()
    for name in explained:
        print(f"{MEASURES[name][0]:<10}  {MEASURES[name][2]}")
    print("\n".join(_scores(recording)), end="\n" if recording.scores else "")


def _rows(measures: Measures, labels: Labels, kind: Kind, names: Sequence[str]) -> Iterator[list[str]]:
    """A table of texts: a heading, and a line for each head."""
    yield [kind, "head", *(MEASURES[name][0] for name in names), "label"]
    for layer, heads in enumerate(measures[names[0]][kind]):
        for head in range(len(heads)):
            numbers = [measures[name][kind][layer][head] for name in names]
            cells = [
                "" if math.isnan(number) else MEASURES[name][1].format(number)
                for name, number in zip(names, numbers, strict=True)
            ]
            yield [f"layer {layer}", str(head), *cells, printable(labels[kind][layer][head] if kind in labels else "")]


def _grid(rows: Iterator[list[str]]) -> Iterator[str]:
    """Columns under each other: the first and the last begin together, numbers end together."""
    table = list(rows)
    widths = [max(width(row[column]) for row in table) for column in range(len(table[0]))]
    for first, *middle, last in table:
        cells = [cell.rjust(size) for cell, size in zip(middle, widths[1:-1], strict=True)]
        yield "  ".join([fitted(first, widths[0]), *cells, last]).rstrip()


def _scores(recording: Recording) -> Iterator[str]:
    """Read-outs beside the baselines that need no model, best first."""
    for measure, text, sign in (
        ("alignment_error", "alignment error rate in percent, lower is better", 1),
        ("antecedent", "pronouns whose antecedent gets the most attention, in percent", -1),
        ("antecedent_agreeing", "the same among the nouns that agree with the pronoun", -1),
    ):
        rows = sorted((s for s in recording.scores if s.measure == measure), key=lambda score: sign * score.value)
        if rows:
            yield f"\n{text}"
        for row in rows:
            place = "" if row.head is None or "layer" in row.name else f" (layer {row.layer}, head {row.head})"
            yield f"  {row.value:>5.1f}  {printable(row.name)}{place}" + ("" if row.kind else "  (baseline)")
