"""Find the requested runs and recordings, and load a recording. Raises UserError that lists the available ones."""

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
"""Depth of the search for runs below the given folder."""


@contextmanager
def also(problems: Sequence[str]) -> Iterator[None]:
    """Raise one UserError with these problems and those raised in the block."""
    try:
        yield
    except UserError as error:
        raise UserError(*problems, *error.args) from None
    if problems:
        raise UserError(*problems)


def recordings(run: Path) -> dict[str, Path]:
    """The recordings of a run by name: training steps in order, then generated texts."""
    return {file.stem: file for file in (*store.steps(run).values(), *store.generated(run).values())}


def recorded_runs(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> list[Path]:
    """The runs with recordings below a folder, sorted by name; the folder itself if it is such a run.

    Symbolic links are followed unless they lead to a parent folder: `above` holds the parents as (device, inode). Runs
    whose recordings cannot be listed are included.
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
    """The folder of a run. Raises UserError if the run does not exist or has no recordings."""
    folder = expanded(run)
    if not folder.exists():
        raise UserError(f"{run}: no such run")
    if not recordings(folder):
        runs = recorded_runs(folder) if folder.is_dir() else []
        hint = f"; runs in it: {', '.join(map(str, runs[:8]))}" if runs else ""
        raise UserError(f"{run}: no attention recordings in this run (attention.enabled=true creates them){hint}")
    return folder


def chosen_recording(run: Path, step: str) -> tuple[str, Path]:
    """The name and file of the requested recording of a run. Raises UserError that lists the available ones."""
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
        raise UserError(f"step={step}: not recorded in {run}; available: {there}")
    return name, found[name]


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Convert any error while a recording is read into a UserError."""
    try:
        yield
    except store.RecordingError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None


def load(run: Path, step: str) -> tuple[str, str, Recording]:
    """Load a recording of a run; return its name, a title and the recording."""
    name, file = chosen_recording(run, step)
    with reading(file):
        recording = store.load(file)
    said = f"step {recording.step:,}" if name.startswith("step_") else f"{name} (step {recording.step:,})"
    return name, printable(f"{run.resolve().name} · {said}"), recording
