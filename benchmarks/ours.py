"""Run this project as a contender: the complete trainer on a real stream of batches, configured as by `train.py`."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from benchmarks.contender import Step
from benchmarks.inputs import zipf_ids
from configs.compose import compose_config
from data.batches.batch import BatchStream
from data.batches.windows import WindowStream
from data.token_cache import prepare
from data.training_data import PreparedPairs, PreparedText
from model.gpt import GPT
from model.size import flops_per_token
from training.config import TrainConfig, problems
from training.hardware.compilation import UNCOMPILED
from training.hardware.device import choose_hardware
from training.run_folder.loaded_run import Model, build_model
from training.run_folder.log import RunLog
from training.trainer import Trainer


class StrictLog(RunLog):
    """Run log that raises RuntimeError if the trainer falls back to uncompiled steps, which would mislabel the row."""

    def line(self, message: str) -> None:
        """Write a message to the log. Raises RuntimeError if the message reports that compiled code fails."""
        if UNCOMPILED in message:
            raise RuntimeError(message)
        super().line(message)


def composed(settings: list[str]) -> TrainConfig:
    """Compose the config of `python train.py` with these settings. Raises ValueError that lists all problems."""
    composed_config, wrong = compose_config("train", TrainConfig, settings)
    config: Any = OmegaConf.to_object(composed_config) if composed_config is not None else None
    wrong = wrong or problems(config)
    if wrong:
        raise ValueError("; ".join(wrong))
    assert isinstance(config, TrainConfig)
    return config


def prepared_and_model(config: TrainConfig) -> tuple[PreparedText | PreparedPairs, Model]:
    """Return the tokenised data and a newly initialised model."""
    prepared = prepare(config.task, config.data, config.tokenizer, config.model.context, config.seed)
    torch.manual_seed(config.seed)
    return prepared, build_model(config, prepared.tokenizers)


def folder_until_exit() -> Path:
    """Create an empty folder that is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def trainer_of(settings: list[str], vocabulary: int = 0) -> Trainer:
    """Build the project's trainer; it raises RuntimeError in a step if compilation fails.

    If `vocabulary` is positive, the trainer trains a GPT of this vocabulary size on `zipf_ids` instead of a text.
    """
    config = composed(["trainer.steps=1000000", *settings])
    hardware = choose_hardware(config.trainer.device, config.trainer.precision, config.trainer.threads)
    stream: BatchStream
    if vocabulary:
        torch.manual_seed(config.seed)
        model: Model = GPT(config.model, vocabulary)
        stream = WindowStream(zipf_ids(vocabulary), config.trainer.batch_size, config.model.context, config.seed)
    else:
        prepared, model = prepared_and_model(config)
        batch_size = config.trainer.batch_size if config.task == "gpt" else config.data.batch_tokens
        stream = prepared.training(batch_size, seed=config.seed)
    trainer = Trainer(config, model, stream, hardware, flops_per_token(model, config.model.context))
    trainer.loss.log = StrictLog(folder_until_exit(), 0).line
    model.train()
    return trainer


def training(settings: list[str], vocabulary: int = 0) -> Step:
    """Return an optimiser step of `trainer_of`, counted in non-padding tokens (source and target)."""
    trainer = trainer_of(settings, vocabulary)

    def step() -> int:
        before = trainer.progress.tokens
        trainer.step()
        return trainer.progress.tokens - before

    return step
