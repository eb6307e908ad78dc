"""The folder of a run's checkpoints: atomic saves, the links `last` and `best`, deletion of old checkpoints.

    checkpoints/step-00000500/          one checkpoint: the files in `training.checkpoints.files`
    checkpoints/last, best              symbolic links to two of the steps
    checkpoints/weights-00000064/       early weights, see `training.checkpoints.early_weights`

Weights and state of a checkpoint never change. `last` is set as soon as a checkpoint is complete. After its evaluation,
`record_evaluation` replaces state.json and, for the lowest loss so far, sets `best`.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from configs.atomic_file import flush, write_whole
from configs.errors import UserError
from training.checkpoints.files import write_files
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import DATA, SUMMARY, checkpoint_step, read_summary, reason, step_order, summary


class NotSaved(UserError):
    """A checkpoint could not be written; existing checkpoints are intact."""


def save_checkpoint(folder: Path, step: int, snapshot: Snapshot, progress: dict, *, keep: int) -> Path:
    """Write `folder/step-…`, set `last` to it, delete older checkpoints -> the new checkpoint.

    progress: counters, plain numbers, saved in state.json; `load_state` returns them as `state["progress"]`. The files
    are written to a temporary folder, flushed and renamed: a process killed at any time leaves the previous checkpoint
    intact and at most a `.tmp-…` entry, which the next save removes. An existing step (e.g. of an earlier training run
    from an earlier step) is kept until no link refers to it, and the new one is named `step-…-2`. Raises NotSaved,
    leaving no files behind, if the disk is full or the folder is not writable.
    """
    names = (f"step-{step:08d}{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    final = next(folder / name for name in names if not (folder / name).exists())
    try:
        write_whole_folder(final, lambda partial: write_files(partial, step, snapshot, progress))
        point(folder / "last", final.name)
    except OSError as error:
        shutil.rmtree(final, ignore_errors=True)
        raise NotSaved(f"the checkpoint of step {step} could not be saved ({reason(error)})") from error
    drop_old(folder, keep)
    return final


def write_whole_folder(final: Path, write: Callable[[Path], None]) -> None:
    """Write a new folder: `write` writes and flushes its files in a temporary one, which is then renamed. Leaves no
    files behind if it raises OSError."""
    folder, partial = final.parent, final.with_name(f".tmp-{final.name}")
    try:
        folder.mkdir(exist_ok=True)  # but not the run folder, which may have been renamed
        remove_left_overs(folder)
        partial.mkdir()
        write(partial)
        flush(folder.parent)  # not before the files: training may be waiting for them
        flush(partial)
        partial.rename(final)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def record_evaluation(folder: Path, progress: dict, *, best: bool, keep: int) -> None:
    """Update the counters of the last checkpoint after its evaluation, set the link `best`, delete old checkpoints.

    The counters contain the best step: after a kill between both writes, `rewind` repairs the link on resume. Raises
    NotSaved, with the checkpoint unchanged, if writing fails.
    """
    checkpoint = target(folder / "last")
    try:
        saved, checksums = read_summary(checkpoint)
        data = {DATA: saved[DATA]} if DATA in saved else {}
        write_whole(checkpoint / SUMMARY, summary(progress | data, checksums))
        if best:
            point(folder / "best", checkpoint.name)
    except (OSError, UserError) as error:
        raise NotSaved(f"the evaluation of {checkpoint.name} could not be saved ({reason(error)})") from error
    drop_old(folder, keep)


def target(link: Path) -> Path:
    """Return where a path leads; Path.resolve raises an error for a link to itself."""
    return Path(os.path.realpath(link))


def point(link: Path, name: str) -> None:
    """Set the symbolic link `link` to the checkpoint `name`, atomically replacing an older one."""
    temporary = link.with_name(f".tmp-{link.name}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(name)
    if link.is_dir() and not link.is_symlink():  # the run was copied with links resolved
        link.rename(link.with_name(f".tmp-copied-{link.name}"))
    temporary.replace(link)


def drop_old(folder: Path, keep: int) -> None:
    """Delete temporary files and all but the newest `keep` checkpoints, except the targets of `last` and `best`."""
    try:
        flush(folder)  # persist the links first
    except OSError:
        return  # until the new links are on disk, keep the old targets; the next save retries
    used = {target(folder / name) for name in ("last", "best")}
    old = sorted((path for path in folder.glob("step-*") if target(path) not in used), key=step_order)
    drop(old[: max(0, len(old) - keep)])


def drop(paths: list[Path]) -> None:
    """Delete checkpoints or links. Each is renamed first, so that no process finds a partial checkpoint."""
    for path in paths:
        with suppress(OSError):  # retried by a later save
            path.rename(path.with_name(f".tmp-dropped-{path.name}"))
    for folder in {path.parent for path in paths}:
        remove_left_overs(folder)


def remove_left_overs(folder: Path) -> None:
    """Delete `.tmp-…` entries; those that cannot be deleted yet (NFS keeps open files) are left for the next call."""
    for left_over in folder.glob(".tmp-*"):
        if left_over.is_dir() and not left_over.is_symlink():
            shutil.rmtree(left_over, ignore_errors=True)
        else:
            with suppress(OSError):
                left_over.unlink()


def rewind(checkpoint: Path, best_step: int | None, *, keep: int) -> list[str]:
    """Set `last` to `checkpoint` and `best` to the best checkpoint up to it, delete later ones -> their names.

    Also deletes early weights of later steps, and what the last save would have deleted: a kill may have come before,
    and training may be complete.

    best_step: target of `best` at that time; None after the best loss was reset. If that checkpoint is gone,
    there is no best checkpoint until the next evaluation.
    """
    folder, step = checkpoint.parent, checkpoint_step(checkpoint)
    if target(folder / "last") != checkpoint:
        point(folder / "last", checkpoint.name)
    # The best step may have an older checkpoint too, to which `best` still refers. In a copy, `last` may be a folder.
    itself = step == best_step and checkpoint.name.startswith("step-")
    best = checkpoint if itself else best_until(folder, step, best_step)
    if best is None:
        drop([folder / "best"])
    elif target(folder / "best") != best:
        point(folder / "best", best.name)
    named = [path for path in folder.glob("*-*") if re.fullmatch(r"(step|weights)-\d+(-\d+)?", path.name)]
    later = [path for path in sorted(named, key=step_order) if step_order(path)[0] > step]
    drop(later)
    drop_old(folder, keep)
    return [path.name for path in later if path.name.startswith("step-")]


def best_until(folder: Path, step: int, best_step: int | None) -> Path | None:
    """Return the best checkpoint up to `step`, or None if it is gone."""
    linked, named = folder / "best", folder / f"step-{best_step or 0:08d}"
    if (linked / SUMMARY).exists():
        linked_step = checkpoint_step(linked)
        if linked_step == best_step or (best_step is None and linked_step <= step):
            return target(linked)
    return target(named) if best_step is not None and (named / SUMMARY).exists() else None
