"""What is evaluated: a checkpoint of a run, with its data prepared for its tokenizer."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import torch

import data.config
from configs.errors import UserError
from configs.program import expanded
from data.config import DataConfig
from data.prepare import prepare
from data.prepared import Prepared
from training.checkpoints.files import load_state
from training.config import TrainConfig
from training.evaluation.reports.settings import DataPlace
from training.run_folder.loaded_run import LoadedRun, Model, load_run
from training.run_folder.saved_config import run_and_checkpoint


@dataclass(frozen=True)
class Subject:
    """A loaded checkpoint and its data."""

    name: str
    """The run as the user named it."""
    run: LoadedRun
    prepared: Prepared
    split: str
    notes: list[str]
    """What the reader of the scores should know about checkpoint and data, one line each."""

    @property
    def model(self) -> Model:
        """Return the model, on the device of the evaluation."""
        return self.run.model

    @property
    def config(self) -> TrainConfig:
        """Return the config of the run."""
        return self.run.config

    def identity(self) -> dict[str, object]:
        """Return what identifies the weights."""
        return {
            "run": self.name,
            "checkpoint": self.run.checkpoint.name,
            "step": self.run.step,
            "weights_sha256": weights_hash(self.model),
        }


def moved(config: DataConfig, place: DataPlace) -> DataConfig:
    """Return the data settings of a run with the places that the user has given, to evaluate whole splits. Raises
    UserError for invalid ones."""
    given = {key: value for key, value in asdict(place).items() if value is not None}
    if config.source == "primer" and given.keys() - {"cache"}:
        raise UserError(f"data.{next(iter(given))}: the run was trained on the built-in corpus, which has no files")
    config = replace(config, **given, valid_tokens=None)
    if found := data.config.problems(config):
        raise UserError(*found)
    return config


def load_subject(name: str, checkpoint: str, split: str, place: DataPlace, device: torch.device) -> Subject:
    """Load a run, or one of its checkpoints, and prepare its data. Raises UserError."""
    run = load_run(*run_and_checkpoint(expanded(name), checkpoint))
    return with_data(name, run, moved(run.config.data, place), split, device)


def with_data(name: str, run: LoadedRun, texts: DataConfig, split: str, device: torch.device) -> Subject:
    """Return the subject whose split comes from `texts`, which may be the data of another run."""
    config = run.config
    sizes = config.model.context, config.seed
    prepared = prepare(config.task, texts, config.tokenizer, *sizes, run.tokenizers)
    if split not in prepared.splits:
        there = ", ".join(each for each in prepared.splits if each != "train")
        raise UserError(f"split={split}: the data of {name} has no such split; there is: {there}")
    run.model.to(device)
    notes = [note for note in prepared.notes if note.startswith(f"{split}:") or note.startswith(f"{split} ")]
    return Subject(name, run, prepared, split, notes + data_notes(name, run, prepared, split))


def data_notes(name: str, run: LoadedRun, prepared: Prepared, split: str) -> list[str]:
    """Return warnings if the data differ from those of the training, by the hashes in the checkpoint."""
    saved = []
    with suppress(UserError):  # copied without the state of the training, which is not needed here
        saved = load_state(run.checkpoint)["data"].split()
    now, before = prepared.keys, dict(zip(prepared.keys, saved, strict=False))
    part = split if split in now else "test"
    if "train" in before and before["train"] != now["train"]:
        return [f"warning: {name} was trained on other data than this; its training data may contain parts of {split}"]
    if part in before and before[part] != now[part]:
        return [f"note: {split} is not the split that the run was evaluated on during training"]
    return []


def weights_hash(model: Model) -> str:
    """Return the SHA-256 of the weights, independent of file format and device."""
    found = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        found.update(f"{name} {tuple(weight.shape)}".encode())
        found.update(weight.detach().float().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
