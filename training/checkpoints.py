"""Checkpoints: written whole or not at all, loadable without unpickling anything."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.errors import UserError

WEIGHTS, STATE, SUMMARY = "weights.safetensors", "state.pt", "state.json"


def save_checkpoint(
    folder: Path, step: int, weights: dict[str, Tensor], state: dict, summary: dict, *, best: bool, keep: int
) -> Path:
    """Write `folder/step-…` completely, point `last` (and `best`) at it, drop older ones.

    A new step is written to a temporary folder, flushed and renamed: a process killed at any moment leaves the previous
    checkpoint in place and at most a `.tmp-…` entry, removed by the next save. A step that is saved again (it was saved when a
    signal came, and evaluated after the resume) has the same weights; state and summary are replaced one by one, each whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step:08d}"
    new = not final.exists()
    target = folder / f".tmp-{final.name}" if new else final
    if new:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        contiguous = {name: tensor.contiguous().cpu() for name, tensor in weights.items()}
        save_file(contiguous, target / WEIGHTS, metadata={"step": str(step)})
        flush(target / WEIGHTS)
    torch.save(state, target / f".tmp-{STATE}")
    text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
    (target / f".tmp-{SUMMARY}").write_text(text, encoding="utf-8")
    for name in (STATE, SUMMARY):
        flush(target / f".tmp-{name}")
        (target / f".tmp-{name}").replace(target / name)
    flush(target)
    if new:
        target.rename(final)
    for name in ["last", "best"] if best else ["last"]:
        point(folder / name, final.name)
    flush(folder)
    drop_old(folder, keep)
    return final


def flush(path: Path) -> None:
    """Ask the operating system to put a file or a folder's entries on the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def point(link: Path, target: str) -> None:
    """Let the symbolic link `link` point at `target`, replacing an older one in a single step."""
    temporary = link.with_name(f".tmp-{link.name}")
    temporary.unlink(missing_ok=True)
    if link.is_dir() and not link.is_symlink():  # a copy of the run that followed the link
        shutil.rmtree(link)
    temporary.symlink_to(target)
    temporary.replace(link)


def drop_old(folder: Path, keep: int) -> None:
    """Remove left-overs and all but the newest `keep` checkpoints that neither `last` nor `best` points at."""
    for left_over in folder.glob(".tmp-*"):
        if left_over.is_symlink():
            left_over.unlink()
        else:
            shutil.rmtree(left_over)
    used = {(folder / name).resolve() for name in ("last", "best")}
    old = sorted(path for path in folder.glob("step-*") if path.resolve() not in used)
    for path in old[: len(old) - keep]:
        shutil.rmtree(path)


def checkpoint_path(run: Path, which: str = "last") -> Path:
    """The folder of a run's `last` or `best` checkpoint; raises UserError naming what is missing."""
    folder = run / "checkpoints"
    complete = sorted(path.parent for path in folder.glob(f"step-*/{SUMMARY}"))
    if not complete:
        raise UserError(
            f"{run}: no checkpoint in it. Is it a run folder (runs/<name>), and did the run reach its first evaluation?"
        )
    link = folder / which
    # A copy made without symbolic links still has its newest checkpoint.
    return link.resolve() if (link / SUMMARY).exists() else complete[-1]


def checkpoint_step(checkpoint: Path) -> int:
    """The step a checkpoint was written at; a copy of the run may have lost the folder's name."""
    try:
        return int(json.loads((checkpoint / SUMMARY).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(damaged(checkpoint / SUMMARY, error)) from error


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint, float32, on the CPU."""
    try:
        return load_file(checkpoint / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise UserError(damaged(checkpoint / WEIGHTS, error)) from error


def load_state(checkpoint: Path) -> dict:
    """The training state of a checkpoint: tensors and plain values only, on the CPU."""
    try:
        return torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # torch raises a dozen kinds for a damaged archive; all of them mean the same to the user
        raise UserError(damaged(checkpoint / STATE, error)) from error


def damaged(path: Path, error: Exception) -> str:
    """What to say of a file that cannot be read, and what to do about it."""
    reason = textwrap.shorten(str(error).strip() or type(error).__name__, 100)
    others = sorted(p.name for p in path.parent.parent.glob("step-*") if p != path.parent)
    fix = (
        f"delete {path.parent} to fall back to {others[-1]}"
        if others
        else "copy the run again from where it was trained"
    )
    return f"{path}: missing or damaged ({reason}). To mend it: {fix}."
