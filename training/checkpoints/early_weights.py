"""Weights of early steps, kept for later analysis. They are not checkpoints: without a training state, nothing resumes
from them, and nothing replaces a damaged checkpoint by them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from configs.atomic_file import flush
from training.checkpoints.files import write_weights_alone
from training.checkpoints.folder import NotSaved, write_whole_folder
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import reason

FIRST, FACTOR = 16, 4


def is_early(step: int) -> bool:
    """Whether the weights of a step are kept: 0, 16, 64, 256, 1024, …; few, however long the run is."""
    while step > FIRST and step % FACTOR == 0:
        step //= FACTOR
    return step in (0, FIRST)


def early_weights(folder: Path, step: int) -> Path:
    """Return where the weights of a step are kept in a folder of checkpoints."""
    return folder / f"weights-{step:08d}"


def save_early_weights(folder: Path, step: int, snapshot: Snapshot) -> None:
    """Write the weights of a step. A process killed at any time leaves all or nothing of them.

    The files are on the disk before a later checkpoint is, so that a resume from it need not repeat them. Raises
    NotSaved, leaving no files behind, if the disk is full or the folder is not writable.
    """
    final = early_weights(folder, step)
    try:
        write_whole_folder(final, lambda partial: write_weights_alone(partial, step, snapshot))
        flush(folder)
    except OSError as error:
        shutil.rmtree(final, ignore_errors=True)
        raise NotSaved(f"the weights of step {step} could not be saved ({reason(error)})") from error
