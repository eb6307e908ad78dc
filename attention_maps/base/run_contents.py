"""Check a run folder: no pipes or devices, and no links by which a writer would leave it.

A run folder may come from somebody else. Readers may follow links to files elsewhere (snapshots of the Hugging Face
hub consist of them); a program that writes, renames or deletes below a run checks before that nothing there leads out.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from attention_maps.base.errors import UserError

FOLDERS = ("attention", "checkpoints", "engine", "evaluation", "val")
"""Folders of a run; programs do not look into others."""
DEEPEST = 3
"""Depth of the files of a run, as in `checkpoints/last/state.json`."""
IN_PLACE = (".lock", "log.txt", "metrics.jsonl", "trace.json", "events.out.tfevents.*")
"""Files that are changed in place; all others are replaced as a whole."""


def check_contents(run: Path, written: str = "") -> None:
    """Raise UserError if the run holds a named pipe, a socket or a device, or if writing would leave the run.

    written: pattern of the entries of the run, such as `*` or `evaluation`, below which the caller writes, renames or
    deletes files: a link there must not lead out of the run, and a file that is changed in place must not be known
    under a second name (a hard link) elsewhere.
    """
    for path, entry in _entries(run):
        where = str(run / path)
        writable = fnmatch(path.parts[0], written)
        if writable and entry.is_symlink() and leads_out(entry.path, run):
            fix = "replace the link by a copy of what it leads to"
            raise UserError(f"{where}: leads out of the run folder, to {os.path.realpath(entry.path)}; {fix}")
        with suppress(OSError):  # a link to itself, or a file that training has just deleted
            if not entry.is_file() and not entry.is_dir() and Path(entry.path).exists():
                raise UserError(f"{where}: is neither a file nor a folder, so it is not part of a run: delete it")
            if writable and any(fnmatch(path.name, name) for name in IN_PLACE) and Path(entry.path).stat().st_nlink > 1:
                reason = "has a second name (a hard link), under which it would change too"
                copy, file = shlex.quote(f"{where}.copy"), shlex.quote(where)
                raise UserError(f"{where}: {reason}; replace it by a copy: cp -p {file} {copy} && mv {copy} {file}")


def leads_out(path: str | Path, run: str | Path) -> bool:
    """Whether a path below a run folder leads out of it through links."""
    return not f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(run)}/")


def _entries(run: Path, inner: Path = Path()) -> Iterator[tuple[Path, os.DirEntry]]:
    """Yield what is in a run and in its FOLDERS, linked ones too, each folder before its content; paths are relative to
    the run."""
    with suppress(OSError), os.scandir(run / inner) as entries:  # a folder that training has just deleted
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = inner / entry.name
            yield path, entry
            known = path.parts[0] in FOLDERS and len(path.parts) < DEEPEST
            if known and os.path.isdir(entry.path):  # noqa: PTH112 (of a link to itself, too)
                yield from _entries(run, path)
