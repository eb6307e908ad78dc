"""The folder of a new run gets a free name; a lock keeps a second process from training in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from filelock import FileLock, Timeout

from configs.errors import UserError
from configs.program import expanded
from configs.whole_file import flush
from training.config import TrainConfig
from training.run_folder.checkpoints import has_checkpoint
from training.run_folder.saved_config import similar_run

OF_A_START = (
    "config.yaml",
    ".config.yaml.*",
    ".tmp-link",
    "tokenizer*.model",
    ".tokenizer*.model.*",
    "source_alphabet.txt",
    ".source_alphabet.txt.*",
    "events.out.tfevents.*",
    "val",
    "trace.json",
    "checkpoints",
)
"""What a start leaves in the folder before its first checkpoint, besides the log and the lock; a dot begins the name of
a part."""


@contextmanager
def create(config: TrainConfig) -> Iterator[Path]:
    """Make the run's folder, and lock it within; raises UserError when that name is taken.

    The folder of a start that ended before its first checkpoint is used again.
    """
    run = make_folder(config)
    with locked(run):
        found = leavings(run)
        if found is None:
            raise UserError(taken(run))
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        check_links(run)
        yield run


def check_links(run: Path) -> None:
    """Refuse a file system without symbolic links (exFAT, some network shares) now, not when the first checkpoint is
    saved."""
    link = run / ".tmp-link"
    try:
        link.symlink_to("config.yaml")
        link.unlink()
    except OSError as error:
        raise UserError(
            f"{run}: symbolic links cannot be made there ({error.strerror}); choose another folder with runs=…"
        ) from error


def make_folder(config: TrainConfig) -> Path:
    """The folder of that name, or of the next free one where the config gives no name."""
    runs, base = expanded(config.runs), base_name(config)
    number = 1
    while True:
        run = runs / (base if number == 1 else f"{base}-{number}")
        try:
            runs.mkdir(parents=True, exist_ok=True)
            run.mkdir()
            flush(runs)
            return run
        except FileExistsError:
            if not runs.is_dir():
                raise UserError(f"runs={runs}: is a file, a folder is needed") from None
            if config.name is not None:
                check_free(config)
                return run
            number += 1
        except OSError as error:
            raise UserError(f"{run}: cannot be made: {error.strerror}") from error


def base_name(config: TrainConfig) -> str:
    """The name of a run, but for the number that makes it a free one."""
    return config.name or config.experiment or f"{config.task}-{config.data.source}"


def check_free(config: TrainConfig) -> None:
    """Refuse a taken name before any work is done."""
    run = expanded(config.runs) / (config.name or "")
    if config.name is None or not run.exists():
        return
    if not run.is_dir() or leavings(run) is None:
        raise UserError(taken(run))
    if (run / ".lock").exists():
        with locked(run):
            pass


def leavings(run: Path) -> list[Path] | None:
    """The files of a start that ended before its first checkpoint; None where the folder holds anything else."""
    found = [path for path in run.iterdir() if path.name not in (".lock", "log.txt")]
    known = all(any(fnmatch(path.name, pattern) for pattern in OF_A_START) for path in found)
    saved = [path for path in run.glob("checkpoints/*") if not path.name.startswith(".tmp-")]
    started = (run / ".lock").exists() or not found
    return found if known and started and not saved else None


def taken(run: Path) -> str:
    """What to say of a run that is there already."""
    if has_checkpoint(run):
        return f"{run} exists already: resume={run} goes on with it, another name=… starts afresh"
    return f"{run} exists already, without a checkpoint to go on from: delete it, or choose another name=…"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Within: no other process trains this run; raises UserError when one does, or there is no such folder."""
    if not run.is_dir():
        raise UserError(f"{run}: no such run folder{similar_run(run)}")
    lock = FileLock(run / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(f"{run}: another process is training this run") from None
    try:
        yield
    finally:
        lock.release()
