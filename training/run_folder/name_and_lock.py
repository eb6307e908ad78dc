"""Create the folder of a new run under an unused name, and lock it against a second training process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from filelock import FileLock, Timeout

from configs.atomic_file import flush
from configs.errors import UserError
from configs.program import expanded
from configs.run_contents import check_contents
from training.checkpoints.loading import has_checkpoint
from training.config import TrainConfig
from training.run_folder.saved_config import similar_run

_INPUTS = ("config.yaml", "tokenizer*.model", "tokenizer*.json", "source_alphabet.txt")
_TEMPORARY = (".tmp-link", *(f".{name}.*" for name in _INPUTS))
_WRITTEN = ("events.out.tfevents.*", "val", "attention", "trace.json", "bad_batch.json", "checkpoints")
OF_A_START = (*_INPUTS, *_TEMPORARY, *_WRITTEN)
"""Files that a run may contain before its first checkpoint, besides log and lock."""


@contextmanager
def create(config: TrainConfig) -> Iterator[Path]:
    """Create and lock the run folder, reusing that of a run that ended before its first checkpoint; raises UserError if
    the name is taken."""
    run = make_folder(config)
    with locked(run):
        for path in files_of_failed_start(run):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        link = run / ".tmp-link"
        try:  # exFAT and some network shares lack the links that a checkpoint needs
            link.symlink_to("config.yaml")
            link.unlink()
        except OSError as error:
            failure = f"cannot create symbolic links there ({error.strerror})"
            raise UserError(f"{run}: {failure}; choose another folder with runs=…") from error
        yield run


def make_folder(config: TrainConfig) -> Path:
    """Create the folder with the configured name, or the next unused name if none is configured."""
    runs, base = expanded(config.runs), base_name(config)
    created = [path for path in (runs, *runs.parents) if not path.exists()]
    number = 1
    while True:
        run = runs / (base if number == 1 else f"{base}-{number}")
        try:
            runs.mkdir(parents=True, exist_ok=True)
            try:
                run.mkdir()
            except FileExistsError:
                if config.name is None:
                    number += 1
                    continue
                check_free(config)  # of a run that ended early, or reserved by a sweep
            for folder in (run, *created):
                flush(folder.parent)
            return run
        except FileExistsError:
            raise UserError(f"runs={runs}: is a file, but must be a folder") from None
        except OSError as error:
            raise UserError(f"{run}: cannot be created: {error.strerror}") from error


def base_name(config: TrainConfig) -> str:
    """Return the name of a run without its uniqueness number."""
    return config.name or config.experiment or f"{config.task}-{config.data.source}"


def check_free(config: TrainConfig) -> None:
    """Reject a taken name before any work is done."""
    run = expanded(config.runs) / (config.name or "")
    if config.name is None or not run.exists():
        return
    files_of_failed_start(run)
    if (run / ".lock").exists():
        with locked(run):
            pass


def files_of_failed_start(run: Path) -> list[Path]:
    """Return the files of a run that ended before its first checkpoint; raises UserError if `run` is anything else."""
    if run.is_dir():
        paths = [path for path in run.iterdir() if path.name not in (".lock", "log.txt")]
        known = all(any(fnmatch(path.name, pattern) for pattern in OF_A_START) for path in paths)
        saved = [path for path in run.glob("checkpoints/*") if not path.name.startswith((".tmp-", "weights-"))]
        if known and not saved and ((run / ".lock").exists() or not paths):
            return paths
    if has_checkpoint(run):
        raise UserError(f"{run} already exists: continue it with resume={run}, or choose another name=…")
    raise UserError(f"{run} already exists, without a checkpoint to resume from: delete it, or choose another name=…")


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the training lock of a run; raises UserError if another process holds it, or if the folder does not exist or
    contains links through which training would write elsewhere."""
    if not run.is_dir():
        raise UserError(f"{run}: no such run folder{similar_run(run)}")
    check_contents(run, written="*")
    lock = FileLock(run / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(f"{run}: another process is training this run") from None
    except (OSError, NotImplementedError) as error:  # some network file systems have no locks
        failure = getattr(error, "strerror", None) or error
        raise UserError(f"{run}: cannot be locked ({failure}); choose another folder with runs=…") from error
    try:
        yield
    finally:
        lock.release()
