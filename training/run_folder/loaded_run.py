"""Load a run folder as a trained model with its config and tokenizers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from configs.errors import UserError
from data.tokens.tokenizer import Tokenizer
from generation.ensemble import GPTEnsemble, TranslatorEnsemble
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.checkpoints.loading import read_checkpoint
from training.config import TrainConfig
from training.run_folder.saved_config import load_config, named_runs
from training.run_folder.tokenizers import load_tokenizers

Model = GPT | EncoderDecoder


@dataclass(frozen=True)
class LoadedRun:
    """A trained model with the config and tokenizers to use it."""

    folder: Path
    config: TrainConfig
    model: Model
    tokenizers: list[Tokenizer]
    step: int
    checkpoint: Path
    """Folder of the loaded checkpoint."""
    members: tuple[LoadedRun, ...] = ()
    """The runs of an ensemble, otherwise none."""


def load_run(run: Path, which: str = "best") -> LoadedRun:
    """Load a run for inference: float32 on the CPU, in evaluation mode. Reports a damaged checkpoint on stderr. which:
    `best`, `last` or the name of a step."""
    config, tokenizers = load_config(run), load_tokenizers(run)
    checkpoint = read_checkpoint(run, which)
    for note in checkpoint.notes():
        print(note, file=sys.stderr)
    model = build_model(config, tokenizers)
    load_into(model, checkpoint.weights, checkpoint.path)
    return LoadedRun(run, config, model.eval(), tokenizers, checkpoint.step, checkpoint.path)


def load_named(name: str, checkpoint: str = "best") -> LoadedRun:
    """Load a run, or several as an ensemble (see `named_runs`), whose folder, config and step are those of the first.

    Raises UserError if they are not models of the same tokens.
    """
    members = [load_run(*one) for one in named_runs(name, checkpoint)]
    first = members[0]
    if len(members) == 1:
        return first
    for other in members[1:]:
        if other.config.task != first.config.task:
            raise UserError(f"run={name}: {other.folder} has task={other.config.task}, not task={first.config.task}")
        if [each.fingerprint for each in other.tokenizers] != [each.fingerprint for each in first.tokenizers]:
            reason = "an ensemble averages the probabilities of the same tokens"
            raise UserError(f"run={name}: {other.folder} has another tokenizer than {first.folder}: {reason}")
    models = [each.model for each in members]
    ensemble: Model
    if isinstance(first.model, GPT):
        ensemble = GPTEnsemble([model for model in models if isinstance(model, GPT)])
    else:
        ensemble = TranslatorEnsemble([model for model in models if isinstance(model, EncoderDecoder)])
    config = replace(first.config, model=ensemble.config)
    return replace(first, config=config, model=ensemble.eval(), members=tuple(members))


def build_model(config: TrainConfig, tokenizers: list[Tokenizer]) -> Model:
    """Build a newly initialised model for the task, in float32 on the CPU."""
    if config.task == "gpt":
        return GPT(config.model, tokenizers[0].vocab_size, tokenizers[0].start_id)
    source, target = tokenizers[0], tokenizers[-1]
    return EncoderDecoder(config.model, source.vocab_size, target.vocab_size, shared=config.tokenizer.shared)


@torch.no_grad()
def load_into(model: Model, weights: dict[str, Tensor], origin: Path) -> None:
    """Copy saved weights into a model; raises UserError naming the first tensor that does not fit."""
    parameters = dict(model.named_parameters())
    missing, foreign = sorted(parameters.keys() - weights.keys()), sorted(weights.keys() - parameters.keys())
    if missing or foreign:
        raise UserError(
            f"{origin}: contains a different model: {(missing or foreign)[0]} is"
            f" {'missing' if missing else 'not part of this config'}"
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            have, need = tuple(weights[name].shape), tuple(parameter.shape)
            raise UserError(f"{origin}: contains a different model: {name} has shape {have}, this config needs {need}")
        if not weights[name].is_floating_point():
            raise UserError(f"{origin}: is damaged: {name} has {weights[name].dtype} numbers instead of float32")
        if weights[name].numel() and not all(extreme.isfinite() for extreme in weights[name].aminmax()):
            raise UserError(f"{origin}: is damaged: {name} has weights that are infinite or not numbers (NaN)")
        parameter.copy_(weights[name])
