"""Find the requested runs and recordings, and load a recording. Errors list what is available."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attention_maps.base.errors import UserError
from attention_maps.base.program import expanded
from attention_maps.draw.labels import printable
from attention_maps.files import store
from attention_maps.files.file_names import FOLDER
from attention_maps.record.recording import Recording

DEEPEST = 6
"""Depth of the search for runs below the given folder."""


@contextmanager
def also(problems: Sequence[str]) -> Iterator[None]:
    """Raise one UserError with these problems and the problems raised in the block."""
    try:
        yield
    except UserError as error:
        raise UserError(*problems, *error.args) from None
    if problems:
        raise UserError(*problems)


def recordings(run: Path) -> dict[str, Path]:
    """Return the recordings of a run by name: training steps in order, then generated texts."""
    return {file.stem: file for file in (*store.steps(run).values(), *store.generated(run).values())}


def recorded_runs(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> list[Path]:
    """Return the runs with recordings in a folder and below, sorted by name; hidden folders and the inside of a run are
    not searched, and a run whose recordings cannot be listed is included.

    Symbolic links are followed unless they lead to a parent folder: `above` holds the parents as (device, inode).
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
    if place in above or len(above) >= DEEPEST:
        return []
    return [run for path in inner for run in recorded_runs(path, above | {place})]


def existing_run(run: str) -> Path:
    """Return the folder of a run. Raises UserError if the run does not exist or has no recordings."""
    folder = expanded(run)
    if not folder.exists():
        raise UserError(f"{run}: no such run")
    if not recordings(folder):
        runs = recorded_runs(folder) if folder.is_dir() else []
        more = f" and {len(runs) - 8} more" if len(runs) > 8 else ""
        hint = f"; runs in it: {', '.join(map(str, runs[:8]))}{more}" if runs else ""
        raise UserError(f"{run}: no attention recordings in this run (attention.enabled=true creates them){hint}")
    return folder


def chosen_recording(run: Path, step: str) -> tuple[str, Path]:
    """Return name and file of the requested recording. Raises UserError that lists the recordings of the run."""
    files, steps = recordings(run), store.steps(run)
    if step in ("first", "last"):
        name = list((steps or files).values())[0 if step == "first" else -1].stem
    elif step.isascii() and step.isdecimal() and len(step) < 16:
        name = store.path(run, int(step)).stem
    else:
        name = step
    if name not in files:
        there = ", ".join([*map(str, steps), *(name for name in files if name.startswith("generated_"))])
        raise UserError(f"step={step}: not recorded in {run}; available: {there}")
    return name, files[name]


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
    label = f"step {recording.step:,}" if name.startswith("step_") else f"{name} (step {recording.step:,})"
    return name, printable(f"{run.resolve().name} · {label}"), recording
