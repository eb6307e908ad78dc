"""What the log says before training: what is about to be trained, on what, with what."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from data.prepare import PreparedPairs, PreparedText
from model.size import count_parameters
from training.config import TrainConfig, plain_settings
from training.hardware.attention_kernels import describe_attention
from training.hardware.device import Hardware
from training.run_folder.loaded_run import Model
from training.run_folder.log import RunLog, code_block, short
from training.run_folder.saved_config import to_yaml


def announce(
    run: Path,
    config: TrainConfig,
    data: PreparedText | PreparedPairs,
    model: Model,
    hardware: Hardware,
    log: RunLog,
    notes: Sequence[str],
) -> None:
    """Write the notes, a line about the model and one about the data; config and versions go to TensorBoard."""
    for note in notes:
        log.line(note)
    vocabulary = " + ".join(str(tokenizer.vocab_size) for tokenizer in data.tokenizers)
    log.line(
        f"{run}: {config.task}, {short(count_parameters(model))} parameters,"
        f" {config.tokenizer.kind} vocabulary of {vocabulary}, {hardware.description},"
        f" attention by {describe_attention(config, hardware)}"
    )
    log.line(f"data: {data.summary()}")
    for note in data.notes:
        log.line(f"note: {note}")
    if config.trainer.steps is not None and config.schedule.warmup >= config.trainer.steps:
        log.line(
            f"note: schedule.warmup={config.schedule.warmup} is not shorter than trainer.steps={config.trainer.steps}: "
            "the peak learning rate is never reached"
        )
    log.markdown("config", code_block(to_yaml(config)), 0)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    log.settings(run.name, plain_settings(replace(config, name=None)))
    log.markdown("versions", code_block(json.dumps(versions, indent=1)), 0)
