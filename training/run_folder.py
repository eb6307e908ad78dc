"""A run is one folder, and it is complete: config, tokenizers, checkpoints, metrics, maps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from configs.program import expanded
from data.alphabet import source_alphabet
from data.tokenizer import Tokenizer
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.checkpoints import checkpoint_path, checkpoint_step, load_weights
from training.config import TrainConfig
from training.errors import UserError
from training.saved_config import load_config

Model = GPT | EncoderDecoder


def create(config: TrainConfig) -> Path:
    """Make the run's folder; raises UserError when a folder of that name is there already."""
    runs, base = expanded(config.runs), base_name(config)
    number = 1
    while True:
        run = runs / (base if number == 1 else f"{base}-{number}")
        try:
            runs.mkdir(parents=True, exist_ok=True)
            run.mkdir()
            return run
        except FileExistsError:
            if config.name is not None or not runs.is_dir():
                raise UserError(
                    existing(run) if runs.is_dir() else f"runs={runs}: is a file, a folder is needed"
                ) from None
            number += 1
        except OSError as error:
            raise UserError(f"{run}: cannot be made: {error.strerror}") from error


def base_name(config: TrainConfig) -> str:
    """The name of a run, but for the number that makes it a free one."""
    return config.name or config.experiment or f"{config.task}-{config.data.source}"


def existing(run: Path) -> str:
    """What to say of a run that is there already."""
    if any((run / "checkpoints").glob("step-*")):
        return f"{run} exists already: resume={run} goes on with it, another name=… starts afresh"
    return f"{run} exists already, without a checkpoint to go on from: delete it, or choose another name=…"


def check_free(config: TrainConfig) -> None:
    """Refuse a taken name before any work is done."""
    if config.name is not None and (expanded(config.runs) / config.name).exists():
        raise UserError(existing(expanded(config.runs) / config.name))


def write_test(run: Path, step: int, figures: dict[str, float]) -> None:
    """`test.json`: what the test splits gave, and with which step's checkpoint."""
    temporary = run / ".test.json.tmp"
    temporary.write_text(json.dumps({"step": step, **figures}, indent=1) + "\n", encoding="utf-8")
    temporary.replace(run / "test.json")


def tested_step(run: Path) -> int | None:
    """The step whose checkpoint `test.json` is about, or None when there is no such file."""
    path = run / "test.json"
    return int(json.loads(path.read_text(encoding="utf-8"))["step"]) if path.exists() else None


def save_tokenizers(tokenizers: list[Tokenizer], run: Path) -> None:
    """One `tokenizer.model`, or one for each side of a translation; those of a resumed run are there already."""
    for path, tokenizer in zip(tokenizer_paths(run, len(tokenizers)), tokenizers, strict=True):
        if not path.exists():
            tokenizer.save(path)


def save_source_alphabet(rows: Any, run: Path) -> None:
    """`source_alphabet.txt`: the characters of a translator's sources, from the rows of the training split."""
    path = run / "source_alphabet.txt"
    if not path.exists():
        path.write_text(source_alphabet(rows) + "\n", encoding="utf-8")


def load_source_alphabet(run: Path) -> frozenset[str] | None:
    """The characters in which a translator's sources are written; None for runs of before there was such a file."""
    try:
        return frozenset((run / "source_alphabet.txt").read_text(encoding="utf-8").strip())
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
            f"{origin}: holds another model: {(missing or foreign)[0]} is {'missing' if missing else 'not part of this config'}"
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
    config = load_config(run)
    checkpoint = checkpoint_path(run, which)
    tokenizers = load_tokenizers(run)
    model = build_model(config, tokenizers)
    load_into(model, load_weights(checkpoint), checkpoint)
    return LoadedRun(run, config, model.eval(), tokenizers, checkpoint_step(checkpoint))
