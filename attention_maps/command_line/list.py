"""`python -m attention_maps list`: list the runs in a folder and their recordings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attention_maps.base.errors import UserError
from attention_maps.base.program import expanded
from attention_maps.command_line.loading import chosen_recording, reading, recorded_runs
from attention_maps.draw.labels import fitted, printable, visible, width
from attention_maps.files import store
from attention_maps.record.head_measures_and_labels import BETWEEN, displayed
from attention_maps.record.recording import Recording, Sample

DETAILED = 12
"""Maximum number of runs that are listed with their samples and maps; more runs get one line each, from file names."""


@dataclass
class ListSettings:
    """`list` has no settings."""


def list_recordings(folder: str, settings: ListSettings, problems: Sequence[str]) -> None:
    """Print the runs in a folder, or one run, with their recorded steps, samples and maps; many runs in one line
    each."""
    runs = recorded_runs(expanded(folder))
    if not expanded(folder).is_dir():
        problems = [*problems, f"{folder}: no such folder"]
    elif not runs:
        problems = [*problems, f"{folder}: no attention recordings in it (attention.enabled=true creates them)"]
    if problems:
        raise UserError(*problems)
    if len(runs) > DETAILED:
        print("\n".join(_table(runs)))
    else:
        print("\n\n".join("\n".join(_run(run)) for run in runs))


def _table(runs: Sequence[Path]) -> Iterator[str]:
    names = [printable(str(run)) for run in runs]
    columns = max(map(width, names))
    for run, name in zip(runs, names, strict=True):
        try:
            steps, generated = store.steps(run), store.generated(run)
        except OSError as error:
            counts = [f"unreadable: {printable(str(error.filename))}: {error.strerror}"]
        else:
            counts = [f"steps {_thinned(list(map(str, steps)), 3)}"] if steps else []
            counts += [f"{len(generated)} generated"] if generated else []
        yield f"{name}{' ' * (columns - width(name))}  {', '.join(counts)}"
    yield f"\n{len(runs)} runs; for samples and maps of one: python -m attention_maps list {shlex.quote(names[0])}"


def _run(run: Path) -> Iterator[str]:
    yield printable(str(run))
    try:
        steps, generated = store.steps(run), store.generated(run)
    except OSError as error:
        yield from _line("unreadable", f"{error.filename}: {error.strerror}")
        return
    yield from _line("steps", _thinned(list(map(str, steps))))
    yield from _line("generated", _thinned([file.stem for file in generated.values()]))
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
        numbers = recording.layer_numbers.get(kind)
        chosen = f" ({', '.join(map(str, numbers))} of the model)" if numbers else ""
        size = f"{shape['layers']} layers{chosen} × {shape['heads']} heads"
        yield from _line(kind, size + _labelled(recording, kind))


def _line(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<10}  {printable(text)}"


def _thinned(names: Sequence[str], most: int = 12) -> str:
    listed = names if len(names) <= most else [*names[: most - 2], "…", names[-1]]
    return ", ".join(listed) + (f"  ({len(names)})" if len(names) > most else "")


def _text(sample: Sample, columns: int = 48) -> str:
    """Return the beginning of the source, if any, and of the decoder input."""
    sides = [tokens for tokens in (sample.source, sample.reads) if tokens]
    words = ([p for p, special in zip(side.pieces, side.special, strict=True) if not special] for side in sides)
    texts = (visible("".join(pieces)).replace("▁", " ").strip() for pieces in words)
    return " → ".join(fitted(text, columns).rstrip() if width(text) > columns else text for text in texts)


def _labelled(recording: Recording, kind: str) -> str:
    """List the labelled heads as text: `; previous token: 0.2, 1.0` (layer.head)."""
    heads: dict[str, list[str]] = {}
    for layer, row in enumerate(recording.labels.get(kind, [])):
        for head, label in enumerate(row):
            for name in filter(None, displayed(label).split(BETWEEN)):
                heads.setdefault(name, []).append(f"{recording.layer_number(kind, layer)}.{head}")
    return "".join(f"; {printable(name)}: {', '.join(places)}" for name, places in heads.items())
