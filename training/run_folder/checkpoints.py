"""Checkpoints: written whole or not at all, loadable without unpickling anything.

    checkpoints/step-00000500/weights.safetensors   the weights to generate with
                              state.pt              what training needs besides them
                              state.json            the counters (`training.progress.Progress`)
    checkpoints/last, best                          symbolic links to two of the steps

A checkpoint's weights and state are never changed once it has its name. `last` is pointed at a step as soon as it is
complete; that it is the best is known after its evaluation only: `record_evaluation` then replaces state.json and
points `best`.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import shutil
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from configs.errors import UserError
from configs.whole_file import flush, write_whole
from training.hardware.out_of_memory import is_out_of_memory

WEIGHTS, STATE, SUMMARY = "weights.safetensors", "state.pt", "state.json"
LOOKS = 20
"""Times a checkpoint that is not there is looked for: while training replaces one, a listing may show neither the old
nor the new."""

STEP_NAME = re.compile(r"step-(\d+)(-\d+)?")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read."""

    path: Path
    step: int
    weights: dict[str, Tensor]
    """float32, on the CPU."""


class NotSaved(UserError):
    """A checkpoint could not be written; those that were there before are untouched."""


def save_checkpoint(
    folder: Path, step: int, weights: dict[str, Tensor], state: dict, progress: dict, *, keep: int
) -> Path:
    """Write `folder/step-…`, point `last` at it, drop older ones -> the new checkpoint.

    progress: counters, plain numbers. They become state.json, and `load_state` returns them as `state["progress"]`.
    The files are written to a temporary folder, flushed and renamed: a process killed at any moment leaves the previous
    checkpoint in place and at most a `.tmp-…` entry, removed by the next save. A step that is there already (of another
    training from an earlier step, say) keeps its files until no link points at it, and the new one is named `step-…-2`.
    Raises NotSaved, with nothing left behind, where the disk is full or the folder cannot be written.
    """
    names = (f"step-{step:08d}{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    final = next(folder / name for name in names if not (folder / name).exists())
    partial = folder / f".tmp-{final.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flush(folder.parent)
        remove_left_overs(folder)
        partial.mkdir()
        write_files(partial, step, weights, state, progress)
        flush(partial)
        partial.rename(final)
        point(folder / "last", final.name)
    except (OSError, SafetensorError) as error:
        for path in (partial, final):
            shutil.rmtree(path, ignore_errors=True)
        raise NotSaved(f"the checkpoint of step {step} could not be saved ({reason(error)})") from error
    drop_old(folder, keep)
    return final


def write_files(folder: Path, step: int, weights: dict[str, Tensor], state: dict, progress: dict) -> None:
    """Write the three files of a checkpoint; one random text in two of them tells that they belong together."""
    save = secrets.token_hex(8)
    contiguous = {name: tensor.contiguous().cpu() for name, tensor in weights.items()}
    save_file(contiguous, folder / WEIGHTS, metadata={"step": str(step), "save": save})
    write_state(state | {"save": save}, folder / STATE)
    (folder / SUMMARY).write_text(to_json(progress), encoding="utf-8")
    for name in (WEIGHTS, STATE, SUMMARY):
        flush(folder / name)


def write_state(state: dict, path: Path) -> None:
    """`torch.save` into a file that is ours: what the system refuses is an OSError then, and the file is closed.

    A file of torch's own says `unexpected pos 640 vs 534`, or `iostream error`, whatever the reason.
    """
    with path.open("wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # `unexpected pos` again, of the archive's end after a write that was refused
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def record_evaluation(folder: Path, progress: dict, *, best: bool, keep: int) -> None:
    """Replace the counters of the last checkpoint by those after its evaluation, point `best` at it if it is, drop
    older ones.

    The counters name the best step: where a kill comes between the two, `rewind` mends the link on resume.
    Raises NotSaved, with the checkpoint as it was, where nothing can be written.
    """
    checkpoint = (folder / "last").resolve()
    try:
        write_whole(checkpoint / SUMMARY, to_json(progress).encode())
        if best:
            point(folder / "best", checkpoint.name)
    except OSError as error:
        raise NotSaved(f"the evaluation of {checkpoint.name} could not be saved ({reason(error)})") from error
    drop_old(folder, keep)


def to_json(progress: dict) -> str:
    """The content of state.json."""
    return json.dumps(progress, indent=1, allow_nan=False) + "\n"


def reason(error: Exception) -> str:
    """Why a file was not written, without the program's own vocabulary."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).rpartition("error: ")[2].partition(" (os error")[0]  # as safetensors says it
    return textwrap.shorten(text or type(error).__name__, 100)


def point(link: Path, target: str) -> None:
    """Let the symbolic link `link` point at `target`, replacing an older one in a single step."""
    temporary = link.with_name(f".tmp-{link.name}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    if link.is_dir() and not link.is_symlink():  # a copy of the run that followed the link
        link.rename(link.with_name(f".tmp-copied-{link.name}"))
    temporary.replace(link)


def drop_old(folder: Path, keep: int) -> None:
    """Remove left-overs and all but the newest `keep` checkpoints that neither `last` nor `best` points at."""
    try:
        flush(folder)  # the links first
    except OSError:
        return  # until they are on the disk for sure, what they pointed at before is needed; the next save tries again
    used = {(folder / name).resolve() for name in ("last", "best")}
    old = sorted(path for path in folder.glob("step-*") if path.resolve() not in used)
    drop(old[: max(0, len(old) - keep)])


def drop(paths: list[Path]) -> None:
    """Remove checkpoints or links. Each is renamed first: neither a reader nor a later start meets half of one."""
    for path in paths:
        with suppress(OSError):  # it goes another time
            path.rename(path.with_name(f".tmp-dropped-{path.name}"))
    for folder in {path.parent for path in paths}:
        remove_left_overs(folder)


def remove_left_overs(folder: Path) -> None:
    """Remove `.tmp-…` entries; what cannot be removed now (NFS keeps files that are being read) goes another time."""
    for left_over in folder.glob(".tmp-*"):
        if left_over.is_dir() and not left_over.is_symlink():
            shutil.rmtree(left_over, ignore_errors=True)
        else:
            with suppress(OSError):
                left_over.unlink()


def rewind(checkpoint: Path, best_step: int | None) -> list[str]:
    """Make `checkpoint` the last of its run and `best` the best up to it -> the names of the later ones, which are
    dropped.

    best_step: the step that `best` pointed at then; None if not known (runs written before it was saved). Where that
    checkpoint is gone, none is the best until the next evaluation.
    """
    folder, step = checkpoint.parent, checkpoint_step(checkpoint)
    if (folder / "last").resolve() != checkpoint:
        point(folder / "last", checkpoint.name)
    best = best_until(folder, step, best_step)
    if best is None:
        drop([folder / "best"])
    elif (folder / "best").resolve() != best:
        point(folder / "best", best.name)
    names = {path: STEP_NAME.fullmatch(path.name) for path in sorted(folder.glob("step-*"))}
    later = [path for path, match in names.items() if match and int(match[1]) > step]
    drop(later)
    return [path.name for path in later]


def best_until(folder: Path, step: int, best_step: int | None) -> Path | None:
    """The best checkpoint of the training up to `step`, or None where it is gone."""
    linked, named = folder / "best", folder / f"step-{best_step or 0:08d}"
    if (linked / SUMMARY).exists():
        linked_step = checkpoint_step(linked)
        if linked_step == best_step or (best_step is None and linked_step <= step):
            return linked.resolve()
    return named.resolve() if best_step is not None and (named / SUMMARY).exists() else None


def has_checkpoint(run: Path) -> bool:
    """Whether there is anything to go on from."""
    return any(run.glob(f"checkpoints/step-*/{SUMMARY}"))


def left_to_go_on(run: Path) -> str:
    """What there is to go on from, once what has ended training is mended."""
    if not has_checkpoint(run):
        return "nothing had been saved yet"
    return f"the checkpoint of step {checkpoint_step(checkpoint_path(run))} is kept: resume={run} goes on from it"


def checkpoint_path(run: Path, which: str = "last") -> Path:
    """The folder of a run's checkpoint: `last`, `best` or the name of a step; raises UserError naming what is
    missing."""
    folder = run / "checkpoints"
    wanted = folder / which
    complete: list[Path] = []
    for _ in range(LOOKS):
        if (wanted / SUMMARY).exists():
            return wanted.resolve()
        complete = sorted(path.parent for path in folder.glob(f"step-*/{SUMMARY}"))
        if complete and not wanted.is_symlink():
            break
    if not complete:
        raise UserError(
            f"{run}: no checkpoint in it. Is it a run folder (runs/<name>), and did the run reach its first evaluation?"
        )
    if which not in ("last", "best"):
        names = ", ".join(path.name for path in complete)
        raise UserError(f"{wanted}: no such checkpoint; there are {names}")
    return complete[-1].resolve()  # a copy made without symbolic links still has its newest checkpoint


def checkpoint_step(checkpoint: Path) -> int:
    """The step a checkpoint was written at; a copy of the run may have lost the folder's name."""
    return int(load_progress(checkpoint)["step"])


def load_progress(checkpoint: Path) -> dict:
    """The counters of a checkpoint."""
    check_opens(checkpoint / SUMMARY)
    try:
        progress = json.loads((checkpoint / SUMMARY).read_text(encoding="utf-8"))
        return progress | {"step": int(progress["step"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(damaged(checkpoint / SUMMARY, error)) from error


def read_checkpoint(run: Path, which: str) -> Checkpoint:
    """Read a run's checkpoint: `last`, `best` or the name of a step.

    A process that trains the run may drop it meanwhile: then `last` and `best` are already another one, which is read
    instead. Raises UserError where there is none, or a file of it is damaged.
    """
    while True:
        path = checkpoint_path(run, which)
        try:
            return Checkpoint(path, checkpoint_step(path), load_weights(path))
        except UserError:
            if path.exists():
                raise


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint, float32, on the CPU."""
    check_opens(checkpoint / WEIGHTS)
    try:
        return load_file(checkpoint / WEIGHTS)
    except (OSError, SafetensorError, RuntimeError) as error:  # the last where the file vanishes while it is opened
        raise UserError(damaged(checkpoint / WEIGHTS, error)) from error


def load_state(checkpoint: Path) -> dict:
    """The training state of a checkpoint: tensors and plain values only, on the CPU.

    Raises UserError where it is damaged, or was not saved together with the weights beside it. An allocator's error
    passes.
    """
    check_opens(checkpoint / STATE)
    try:
        state = torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # torch raises a dozen kinds for a damaged archive; all of them mean the same to the user
        if is_out_of_memory(error):
            raise
        raise UserError(damaged(checkpoint / STATE, error)) from error
    progress, saved = load_progress(checkpoint), weights_metadata(checkpoint)
    # Checkpoints of before have no `save`; then equal steps must do.
    if state.pop("save", None) != saved.get("save") or int(saved.get("step", progress["step"])) != progress["step"]:
        raise UserError(
            f"{checkpoint}: {WEIGHTS} and {STATE} were not saved together, training cannot go on from them. To mend it:"
            f" {fix(checkpoint)}."
        )
    return state | {"progress": progress}


def weights_metadata(checkpoint: Path) -> dict[str, str]:
    """What is noted beside the weights: `step`, and `save`, which the state of the same save has too."""
    try:
        with safe_open(checkpoint / WEIGHTS, "pt") as file:
            return file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise UserError(damaged(checkpoint / WEIGHTS, error)) from error


def check_opens(path: Path) -> None:
    """Refuse a file that the system does not open: it may be whole. One that is not there is left to what reads it."""
    try:
        path.open("rb").close()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def damaged(path: Path, error: Exception) -> str:
    """What to say of a file that cannot be read, and what to do about it."""
    cause = textwrap.shorten(str(error).strip() or type(error).__name__, 100)
    return f"{path}: missing or damaged ({cause}). To mend it: {fix(path.parent)}."


def fix(checkpoint: Path) -> str:
    """What to do about a checkpoint that cannot be used."""
    others = sorted(path.name for path in checkpoint.parent.glob("step-*") if path != checkpoint)
    if others:
        return f"delete {checkpoint} to fall back to {others[-1]}"
    return "copy the run again from where it was trained"
