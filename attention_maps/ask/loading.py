"""Find the runs and recordings that a command names, and load one. Raises UserError, naming what there is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attention_maps.draw.labels import printable
from attention_maps.files import store
from attention_maps.files.file_names import FOLDER
from attention_maps.record.recording import Recording
from configs.errors import UserError
from configs.program import expanded

DEPTH = 6
"""Folders below the one given that are searched for runs."""


@contextmanager
def also(problems: Sequence[str]) -> Iterator[None]:
    """Report the problems found so far, together with those of the block."""
    try:
        yield
    except UserError as error:
        raise UserError(*problems, *error.args) from None
    if problems:
        raise UserError(*problems)


def recordings(run: Path) -> dict[str, Path]:
    """The recordings of a run by name, steps in order and then what was generated."""
    return {file.stem: file for file in (*store.steps(run).values(), *store.generated(run).values())}


def recorded_runs(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> list[Path]:
    """The runs with recordings in a folder, or the folder itself if it is one, in order of name.

    Links are followed, but not to a folder that they lie in: `above` are those by device and inode. A run whose
    recordings cannot be listed is among them.
    """
    try:
        if recordings(folder):
            return [folder]
    except OSError:
        return [folder] if os.path.isdir(folder / FOLDER) else []  # noqa: PTH112 (Path's raises)
    try:
        status = folder.stat()
        inner = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and os.path.isdir(path))  # noqa: PTH112
    except OSError:
        return []
    place = (status.st_dev, status.st_ino)
    if place in above or len(above) >= DEPTH:
        return []
    return [run for path in inner for run in recorded_runs(path, above | {place})]


def existing_run(run: str) -> Path:
    """The folder of a run that has recordings."""
    folder = expanded(run)
    if not folder.exists():
        raise UserError(f"{run}: no such run")
    if not recordings(folder):
        runs = recorded_runs(folder) if folder.is_dir() else []
        hint = f"; runs in it: {', '.join(map(str, runs[:8]))}" if runs else ""
        raise UserError(f"{run}: no recordings of attention in this run (attention.enabled=true makes them){hint}")
    return folder


def chosen_recording(run: Path, step: str) -> tuple[str, Path]:
    """The name and the file of a run's recording."""
    found = recordings(run)
    steps = {int(name.removeprefix("step_")): name for name in found if name.startswith("step_")}
    if step in ("first", "last") and steps:
        name = steps[min(steps) if step == "first" else max(steps)]
    elif step in ("first", "last"):
        name = list(found)[0 if step == "first" else -1]
    elif step.isascii() and step.isdecimal() and len(step) < 16:
        name = steps.get(int(step), "")
    else:
        name = step
    if name not in found:
        generated = [name for name in found if name.startswith("generated_")]
        there = ", ".join([*map(str, steps), *generated])
        raise UserError(f"step={step}: not recorded in {run}; there are {there}")
    return name, found[name]


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Whatever keeps a recording from being read is a UserError."""
    try:
        yield
    except store.RecordingError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def load(run: Path, step: str) -> tuple[str, str, Recording]:
    """A run's recording: its name, a title, and what is in it."""
    name, file = chosen_recording(run, step)
    with reading(file):
        recording = store.load(file)
    said = f"step {recording.step:,}" if name.startswith("step_") else f"{name} (step {recording.step:,})"
    return name, printable(f"{run.resolve().name} · {said}"), recording
