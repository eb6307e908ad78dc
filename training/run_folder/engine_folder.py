"""A run's model in CTranslate2's format, written once: `engine/ctranslate2-<hash>` in the run folder.

The hash identifies the weights and the format, so an existing export is found without reading the weights, and without
importing torch. It changes when training replaces the checkpoint.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from configs.atomic_file import flush
from configs.atomic_folder import whole_folder
from configs.errors import UserError
from configs.program import importing
from configs.run_contents import leads_out
from generation.config import GenerateConfig
from interop.ctranslate.limits import FORMAT
from model.config import ModelConfig
from training.checkpoints.checksums import Checksum
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import SUMMARY, WEIGHTS, read_summary
from training.run_folder.saved_config import load_config, named_runs
from training.run_folder.tokenizers import load_tokenizers

if TYPE_CHECKING:
    from generation.engines.ctranslate_engine import CTranslate2Engine

ENGINE = "engine"
CHECKSUMS = "checksums.json"
"""File of an export with the sizes and checksums of the others."""

ABANDONED = 3600
"""Age in seconds from which a temporary folder is assumed to be left over from a process that was killed."""


def start_ctranslate2(config: GenerateConfig) -> CTranslate2Engine:
    """Load the export of a run for `generate.py`, after writing it if that has not been done yet."""
    with importing():
        from generation.engines.ctranslate_engine import CTranslate2Engine

    ((run, checkpoint),) = named_runs(str(config.run), config.checkpoint)
    model = load_config(run).model
    folder = engine_folder(run, checkpoint, model)
    if config.quantize == "int8":
        print("note: weights and activations are rounded to 8 bits (quantize=int8)", file=sys.stderr)
    return CTranslate2Engine(folder, load_tokenizers(run), model.context, config, stream=sys.stdout.isatty())


def engine_folder(run: Path, which: str, config: ModelConfig) -> Path:
    """Return the folder with the exported model of a checkpoint (`best`, `last` or the name of a step).

    If there is none, loads the checkpoint, which needs torch, writes the folder as a whole, and deletes the exports of
    weights that the run no longer has. Raises UserError if the checkpoint or the model cannot be used, and OSError if
    the folder cannot be written.
    """
    with suppress(UserError):  # a damaged checkpoint: below, another one is loaded instead of it, with a warning
        folder = run / ENGINE / name(checkpoint_path(run, which), config)
        if folder.exists() and (cause := damage(folder)):
            print(f"warning: {folder} is damaged ({cause}): it is written again", file=sys.stderr)
        elif folder.exists():
            return folder
    with importing():
        from interop.ctranslate.export import write_model
        from training.run_folder.loaded_run import LoadedRun

    loaded = LoadedRun(run, which)
    folder = run / ENGINE / name(loaded.checkpoint, config)
    if damage(folder):
        if leads_out(folder, run):
            raise OSError(errno.ELOOP, "leads out of the run folder: nothing is written or deleted there", str(folder))
        remove_stale(run, config)
        shutil.rmtree(folder, ignore_errors=True)  # if it exists, it is damaged
        try:
            store(folder, lambda partial: write_model(loaded.model, loaded.tokenizers, partial))
        except OSError:
            if damage(folder):  # otherwise another process was faster
                raise
    return folder


def damage(folder: Path) -> str | None:
    """Return why an export cannot be used, or None: someone may have deleted its large file to free space."""
    try:
        saved = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
        if saved.keys() != {path.name for path in folder.iterdir()} - {CHECKSUMS}:
            return "it has other files than were written"
        for name, entry in saved.items():
            if cause := Checksum.from_json(entry).difference(folder / name):
                return f"{name!a}: {cause}"
    except FileNotFoundError as error:
        return f"there is no {Path(error.filename).name}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"{CHECKSUMS}: does not list its files"
    return None


def store(folder: Path, write: Callable[[Path], object]) -> None:
    """Create a folder, complete at any time, also after a power failure, from the files that `write` puts into one, and
    their checksums."""
    with whole_folder(folder) as partial:
        write(partial)
        written = {path.name: Checksum.of(path).to_json() for path in sorted(partial.iterdir())}
        (partial / CHECKSUMS).write_text(json.dumps(written, indent=1), encoding="utf-8")
        for path in (*partial.iterdir(), partial):  # the names of files are content of their folder
            flush(path)


def name(checkpoint: Path, config: ModelConfig) -> str:
    """Return the name of the export of a checkpoint. Raises UserError if the checkpoint is damaged."""
    weights = (read_summary(checkpoint)[1].get(WEIGHTS) or Checksum.of(checkpoint / WEIGHTS)).to_json()
    content = json.dumps([FORMAT, weights, asdict(config)], sort_keys=True)
    return f"ctranslate2-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def remove_stale(run: Path, config: ModelConfig) -> None:
    """Delete the exports of weights that no checkpoint of the run has, and what killed processes have left."""
    current = set()
    for summary in run.glob(f"checkpoints/*/{SUMMARY}"):
        with suppress(UserError, OSError):
            current.add(name(summary.parent, config))
    for path in (run / ENGINE).glob("ctranslate2-*"):
        if path.name not in current:
            shutil.rmtree(path, ignore_errors=True)
    for path in (run / ENGINE).glob(".ctranslate2-*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED:
                shutil.rmtree(path, ignore_errors=True)
