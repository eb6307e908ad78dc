"""A run is one folder, and it is complete: config, tokenizers, checkpoints, metrics, maps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from configs.errors import UserError
from configs.program import expanded
from configs.whole_file import flush, write_whole
from data.tokens.alphabet import source_alphabet
from data.tokens.tokenizer import Tokenizer
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig
from training.run_folder.checkpoints import has_checkpoint, read_checkpoint
from training.run_folder.log import finite
from training.run_folder.saved_config import load_config, similar_run

Model = GPT | EncoderDecoder


OF_A_START = (
    "config.yaml",
    ".config.yaml.*",
    ".tmp-link",
    "tokenizer*.model",
    ".tokenizer*.model.*",
    "source_alphabet.txt",
    ".source_alphabet.txt.*",
    "events.out.tfevents.*",
    "trace.json",
    "checkpoints",
)
"""What a start leaves in the folder before its first checkpoint, besides the log and the lock; a dot begins the name of
a part."""


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


def write_test(run: Path, step: int, figures: dict[str, float]) -> None:
    """`test.json`: what the test splits gave, and with which step's checkpoint."""
    text = json.dumps(finite({"step": step, **figures}), indent=1, allow_nan=False) + "\n"
    write_whole(run / "test.json", text.encode())


def tested_step(run: Path) -> int | None:
    """The step whose checkpoint `test.json` is about, or None when there is no such file, or a damaged one: the test is
    repeated then."""
    try:
        return int(json.loads((run / "test.json").read_text(encoding="utf-8"))["step"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget_test_after(run: Path, step: int) -> None:
    """Remove `test.json` where it is about a checkpoint after `step`: that step is about to be trained again."""
    if (tested_step(run) or 0) > step:
        (run / "test.json").unlink()


def save_tokenizers(tokenizers: list[Tokenizer], run: Path) -> None:
    """One `tokenizer.model`, or one for each side of a translation; those of a resumed run are there already."""
    for path, tokenizer in zip(tokenizer_paths(run, len(tokenizers)), tokenizers, strict=True):
        if not path.exists():
            write_whole(path, tokenizer.model)


def save_source_alphabet(rows: Any, run: Path) -> None:
    """`source_alphabet.txt`: the characters of a translator's sources, from the rows of the training split."""
    path = run / "source_alphabet.txt"
    if not path.exists():
        write_whole(path, f"{source_alphabet(rows)}\n".encode())


def load_source_alphabet(run: Path) -> frozenset[str] | None:
    """The characters in which a translator's sources are written; None where the file is missing (older runs) or
    damaged."""
    try:
        return frozenset((run / "source_alphabet.txt").read_text(encoding="utf-8").strip()) or None
    except (OSError, UnicodeDecodeError):
        return None


def tokenizer_paths(run: Path, count: int) -> list[Path]:
    """Where the tokenizers of a run lie."""
    names = ["tokenizer.model"] if count == 1 else ["tokenizer.source.model", "tokenizer.target.model"]
    return [run / name for name in names]


def load_tokenizers(run: Path) -> list[Tokenizer]:
    """The run's one or two tokenizers (source first)."""
    for count in (1, 2):
        paths = tokenizer_paths(run, count)
        if all(path.exists() for path in paths):
            return [Tokenizer.load(path) for path in paths]
    raise UserError(f"{run}: no tokenizer.model in it; the folder is incomplete, copy the run again")


def build_model(config: TrainConfig, tokenizers: list[Tokenizer]) -> Model:
    """A freshly initialised model for the task, in float32 on the CPU."""
    if config.task == "gpt":
        return GPT(config.model, tokenizers[0].vocab_size, tokenizers[0].eos_id)
    source, target = tokenizers[0], tokenizers[-1]
    return EncoderDecoder(config.model, source.vocab_size, target.vocab_size, shared=len(tokenizers) == 1)


@torch.no_grad()
def load_into(model: Model, weights: dict[str, Tensor], origin: Path) -> None:
    """Copy saved weights into a model; raises UserError naming the first tensor that does not fit."""
    parameters = dict(model.named_parameters())
    missing, foreign = sorted(parameters.keys() - weights.keys()), sorted(weights.keys() - parameters.keys())
    if missing or foreign:
        raise UserError(
            f"{origin}: holds another model: {(missing or foreign)[0]} is"
            f" {'missing' if missing else 'not part of this config'}"
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            have, need = tuple(weights[name].shape), tuple(parameter.shape)
            raise UserError(f"{origin}: holds another model: {name} has shape {have}, this config needs {need}")
        parameter.copy_(weights[name])


@dataclass(frozen=True)
class LoadedRun:
    """A trained model with all it needs to be used."""

    folder: Path
    config: TrainConfig
    model: Model
    tokenizers: list[Tokenizer]
    step: int


def load_run(run: Path, which: str = "best") -> LoadedRun:
    """Load a run for use: float32 on the CPU, in evaluation mode."""
    config, tokenizers = load_config(run), load_tokenizers(run)
    checkpoint = read_checkpoint(run, which)
    model = build_model(config, tokenizers)
    load_into(model, checkpoint.weights, checkpoint.path)
    return LoadedRun(run, config, model.eval(), tokenizers, checkpoint.step)
