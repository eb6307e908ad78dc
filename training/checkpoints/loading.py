"""Find and load a checkpoint of a run; damaged ones are passed over in favour of the last good one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from configs.errors import UserError
from training.checkpoints.summary import SUMMARY, Damaged, checkpoint_step, step_order

if TYPE_CHECKING:
    from torch import Tensor

ATTEMPTS = 20
"""Attempts to find a checkpoint: while training replaces one, a listing may show neither old nor new."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint."""

    path: Path
    step: int
    weights: dict[str, Tensor]
    """float32, on the CPU."""
    state: dict | None = None
    """Training state, if requested."""
    damaged: tuple[tuple[Path, str], ...] = ()
    """Damaged checkpoints that were passed over, with the reasons."""

    def forget_tensors(self) -> None:
        """Free the memory of weights and state, once they are copied to where they are used."""
        self.weights.clear()
        if self.state is not None:
            self.state.clear()

    def notes(self) -> list[str]:
        """Return a line for each damaged checkpoint that this one replaces."""
        return [
            f"warning: {path} is damaged ({cause}): {self.path.name} is used instead" for path, cause in self.damaged
        ]


def read_checkpoint(
    run: Path, which: str, *, with_state: bool = False, replaced: tuple[str, ...] = ("last", "best")
) -> Checkpoint:
    """Load a checkpoint of a run: `last`, `best` or the name of a step. Changes no file.

    If a checkpoint in `replaced` is damaged, the newest intact one is loaded instead. If a training process deletes a
    checkpoint meanwhile, the links already refer to another one, which is loaded instead. Raises UserError if there is
    no intact checkpoint, or if one cannot be read for another reason than damage, such as permissions: nothing is
    called damaged then. Out-of-memory errors propagate.
    """
    from training.checkpoints.files import load_state, load_weights  # late: finding a checkpoint needs no torch

    damaged: dict[Path, str] = {}
    path: Path | None = checkpoint_path(run, which)
    while path is not None:
        try:
            state = load_state(path) if with_state else None
            return Checkpoint(path, checkpoint_step(path), load_weights(path), state, tuple(damaged.items()))
        except Damaged as error:
            if path.exists():
                if which not in replaced:
                    raise
                damaged[path] = error.cause
        except UserError:
            if path.exists():
                raise
        again = checkpoint_path(run, which)
        path = next((candidate for candidate in (again, *newest_first(run)) if candidate not in damaged), None)
    listed = "; ".join(f"{path.name} ({cause})" for path, cause in damaged.items())
    raise UserError(f"{run}: every checkpoint is damaged: {listed}. Copy the run again from where it was trained.")


def newest_first(run: Path) -> list[Path]:
    """Return the checkpoints of all steps, newest first, including damaged ones."""
    checkpoints = [path for path in (run / "checkpoints").glob("step-*") if step_order(path)[0] >= 0 and path.is_dir()]
    return [path.resolve() for path in sorted(checkpoints, key=step_order, reverse=True)]


def set_aside(checkpoint: Path) -> Path:
    """Rename a damaged checkpoint, which is never deleted, to `damaged-…` -> its new path."""
    number, renamed = 1, checkpoint.with_name(f"damaged-{checkpoint.name}")
    while renamed.exists():
        number += 1
        renamed = checkpoint.with_name(f"damaged-{checkpoint.name}-{number}")
    try:
        checkpoint.rename(renamed)
    except OSError as error:
        raise UserError(f"{checkpoint}: is damaged, but cannot be renamed ({error.strerror})") from error
    return renamed


def has_checkpoint(run: Path) -> bool:
    """Whether the run has a checkpoint to resume from."""
    return any(run.glob(f"checkpoints/step-*/{SUMMARY}"))


def resume_hint(run: Path) -> str:
    """Describe the checkpoint from which the run can be resumed, for an error message."""
    if not has_checkpoint(run):
        return "nothing had been saved yet"
    try:
        note = f"the checkpoint of step {checkpoint_step(checkpoint_path(run))} is kept: "
    except UserError:  # damaged or unreadable: a resume reports it
        note = ""
    return f"{note}continue with resume={run}"


def checkpoint_path(run: Path, which: str = "last") -> Path:
    """Return the folder of a checkpoint: `last`, `best`, or the name of a step or of early weights. Raises UserError if
    it is missing."""
    wanted = run / "checkpoints" / which
    for _ in range(ATTEMPTS):
        if wanted.is_dir():
            return wanted.resolve()
        checkpoints = newest_first(run)
        if checkpoints and not wanted.is_symlink():
            break
    if not checkpoints:
        raise UserError(
            f"{run}: contains no checkpoint. Is it a run folder (runs/<name>), and has the run been evaluated once?"
        )
    if which not in ("last", "best"):
        checkpoints += (run / "checkpoints").glob("weights-*")
        names = ", ".join(path.name for path in sorted(checkpoints, key=step_order))
        raise UserError(f"{wanted}: no such checkpoint; available: {names}")
    return checkpoints[0]  # a copy without symbolic links
