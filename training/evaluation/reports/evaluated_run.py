"""A checkpoint to evaluate, with its data prepared for its tokenizer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import data.config
from configs.errors import UserError
from data.config import DataConfig
from data.errors import DataError
from data.sources.files import locate
from data.token_cache import prepare
from data.training_data import Prepared
from interop.export_input import weights_hash
from training.checkpoints.files import data_hashes
from training.config import TrainConfig
from training.evaluation.reports.settings import DataPlace
from training.run_folder.loaded_run import LoadedRun, Model


@dataclass(frozen=True)
class Subject:
    """A loaded checkpoint and its data."""

    run: LoadedRun
    prepared: Prepared
    split: str
    notes: list[str]
    """Notes on checkpoint and data for the report, one line each."""

    @property
    def name(self) -> str:
        """Return the run as the user named it."""
        return self.run.name

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
        identity: dict[str, object]
        identity = {"run": self.name, "checkpoint": self.run.checkpoint.name, "step": self.run.step}
        identity |= {"weights_sha256": weights_hash(self.model)}
        if self.run.members:
            identity["members"] = [
                {"run": str(member.folder), "step": member.step, "weights_sha256": weights_hash(member.model)}
                for member in self.run.members
            ]
        return identity

    def label(self, role: str) -> str:
        """Return the name for a table of 100 columns: that of the run or, if it is long, its role."""
        return self.name if len(self.name) <= 18 else role

    @property
    def steps(self) -> str:
        """Return the step of the checkpoint, or those of an ensemble."""
        return "step " + ", ".join(str(member.step) for member in self.run.members or (self.run,))


def moved(config: DataConfig, place: DataPlace, task: str, split: str) -> DataConfig:
    """Return the data settings of a run with the places that the user has given, to evaluate whole splits. A file of
    the split is enough, if the training files are not there, or are not files. Raises UserError for invalid ones."""
    places = {key: value for key, value in asdict(place).items() if value is not None}
    alone = {"valid": "valid_path", "test": "test_path"}.get(split, "")
    enough = alone in places and "path" not in places
    files = config.source in ("text", "pairs")
    if enough and not files:
        others: dict[str, Any] = dict.fromkeys((*data.config.HUB_ONLY, "subset"))
        config = replace(config, source="text" if task == "gpt" else "pairs", path=places[alone], **others)
    if config.source == "primer" and places.keys() - {"cache"}:
        raise UserError(
            f"data.{next(iter(places))}: the run was trained on the built-in corpus, which has no files; test it on"
            " one with data.test_path=FILE"
        )
    config = replace(config, **places, valid_tokens=None)
    if problems := data.config.problems(config):
        raise UserError(*problems)
    if enough and not (files and is_there(config, task)):
        nothing = {"path": None, "valid_path": None, "test_path": None, "max_rows": None}
        return replace(config, **nothing | {alone: places[alone]}, valid_fraction=0.0, test_fraction=0.0)
    return config


def is_there(config: DataConfig, task: str) -> bool:
    """Whether the files of all splits are found."""
    try:
        locate(config, task)
    except DataError:
        return False
    return True


def prepare_subject(run: LoadedRun, texts: DataConfig, split: str) -> Subject:
    """Tokenise `texts`, which may be the data of another run, for a run. Raises UserError if the split is missing."""
    config = run.config
    sizes = config.model.context, config.seed
    prepared = prepare(config.task, texts, config.tokenizer, *sizes, run.tokenizers)
    if split not in prepared.splits:
        there = ", ".join(name for name in prepared.splits if name != "train")
        raise UserError(f"split={split}: the data of {run.name} has no such split; there is: {there}")
    notes = [note for note in prepared.notes if note.startswith(f"{split}:") or note.startswith(f"{split} ")]
    for member in run.members or (run,):
        notes += data_notes(str(member.folder), member, prepared, split)
    return Subject(run, prepared, split, notes)


def data_notes(name: str, run: LoadedRun, prepared: Prepared, split: str) -> list[str]:
    """Return warnings if the data differ from those of the training, by the hashes in the checkpoint."""
    saved = zip(("train", "valid", "test"), data_hashes(run.checkpoint), strict=False)
    now, before = prepared.keys, dict(saved)
    part = split if split in now else "test"
    if "train" not in now:
        return [f"note: the training data are not read: whether they contain parts of {split} is not checked"]
    if "train" in before and before["train"] != now["train"]:
        return [f"warning: {name} was trained on other data than this; its training data may contain parts of {split}"]
    if part in before and before[part] != now[part]:
        return [f"note: {split} is not the split that the run was evaluated on during training"]
    return []
