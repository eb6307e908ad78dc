"""Load a run folder as a trained model with its config and tokenizers."""

from __future__ import annotations

import sys
from dataclasses import replace
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


class LoadedRun:
    """A trained model with what belongs to it: float32, in evaluation mode, on the CPU. `run.Run` adds what to do with
    it."""

    def __init__(self, path: str | Path, checkpoint: str = "best") -> None:
        """Load a run, one of its checkpoints, or several runs separated by commas as an ensemble (see `named_runs`),
        whose folder, config and step are those of the first. checkpoint: `best`, `last` or the name of a step.

        Reports a damaged checkpoint on stderr if an older one can be used instead. Raises UserError if there is no such
        run, if it cannot be loaded, or if the models of an ensemble have different tokens.
        """
        runs = named_runs(str(path), checkpoint)
        self.name = str(path)
        """The run as the user named it."""
        self.members = tuple(LoadedRun(*member) for member in runs) if len(runs) > 1 else ()
        """The runs of an ensemble, otherwise none."""
        if self.members:
            self._average()
        else:
            self._load(*runs[0])

    def _load(self, folder: Path, which: str) -> None:
        self.folder = folder
        self.config, self.tokenizers = load_config(folder), load_tokenizers(folder)
        checkpoint = read_checkpoint(folder, which)
        for note in checkpoint.notes():
            print(note, file=sys.stderr)
        self.model: Model = build_model(self.config, self.tokenizers)
        load_into(self.model, checkpoint.weights, checkpoint.path)
        self.model.eval()
        self.step, self.checkpoint = checkpoint.step, checkpoint.path

    def _average(self) -> None:
        first, *others = self.members
        for other in others:
            if other.config.task != first.config.task:
                task = first.config.task
                raise UserError(f"run={self.name}: {other.folder} has task={other.config.task}, not task={task}")
            mine, theirs = ([tokenizer.fingerprint for tokenizer in run.tokenizers] for run in (first, other))
            if mine != theirs:
                reason = "an ensemble averages the probabilities of the same tokens"
                raise UserError(f"run={self.name}: {other.folder} has another tokenizer than {first.folder}: {reason}")
        models = [member.model for member in self.members]
        if isinstance(first.model, GPT):
            self.model = GPTEnsemble([model for model in models if isinstance(model, GPT)])
        else:
            self.model = TranslatorEnsemble([model for model in models if isinstance(model, EncoderDecoder)])
        self.model.eval()
        self.folder, self.tokenizers, self.step = first.folder, first.tokenizers, first.step
        self.config, self.checkpoint = replace(first.config, model=self.model.config), first.checkpoint


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
