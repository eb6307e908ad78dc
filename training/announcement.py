"""Summary of a run for the log and TensorBoard: model, data, hardware and settings."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from data.prepare import PreparedPairs, PreparedText
from model.size import count_parameters
from training.config import TrainConfig, plain_settings
from training.hardware.device import Hardware
from training.hardware.gpu_attention import describe_attention
from training.progress import Progress
from training.run_folder.loaded_run import Model
from training.run_folder.log import RunLog, code_block, duration, short
from training.run_folder.saved_config import to_yaml


def announce(
    run: Path,
    config: TrainConfig,
    data: PreparedText | PreparedPairs,
    model: Model,
    hardware: Hardware,
    progress: Progress,
    log: RunLog,
    notes: Sequence[str],
) -> None:
    """Log the notes, one line on the model and one on the data; write settings and versions to TensorBoard."""
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
    if not progress.step:
        log.markdown("about", about(run, config, data, model, hardware, progress), 0)
    log.markdown("settings", code_block(to_yaml(config)), 0)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    log.settings(run.name, plain_settings(replace(config, name=None)))
    log.markdown("versions", code_block(json.dumps(versions, indent=1)), 0)


def about(
    run: Path,
    config: TrainConfig,
    data: PreparedText | PreparedPairs,
    model: Model,
    hardware: Hardware,
    progress: Progress,
) -> str:
    """Return the introduction of TensorBoard's Text tab: model, data, budget, progress and best loss so far."""
    shape, trainer = config.model, config.trainer
    if config.task == "gpt":
        kind = f"language model (GPT) of {shape.layers} layers"
    else:
        kind = f"translator (encoder-decoder) of {shape.encoder_depth} + {shape.layers} layers"
    corpus = "the built-in corpus" if config.data.source == "primer" else f"{config.data.path} ({config.data.source})"
    budgets = ((trainer.steps, f"{trainer.steps} steps"), (trainer.minutes, f"{trainer.minutes} minutes"))
    sentences = [
        f"**{run.name}** is a {kind}, {shape.heads} heads and width {shape.width}: {short(count_parameters(model))}"
        f" parameters, {config.tokenizer.kind} tokens.",
        f"Data: {corpus}, {data.summary()}.",
        f"Budget: {' or '.join(text for budget, text in budgets if budget)}, on {hardware.description}.",
    ]
    if progress.step:
        tokens, time = short(progress.tokens), duration(progress.seconds)
        sentences.append(f"Trained for {progress.step} steps, {tokens} tokens, in {time}.")
    if math.isfinite(progress.best_loss):
        sentences.append(f"Best validation loss: {progress.best_loss:.4f} nats per token at step {progress.best_step}.")
    sentences.append(f"All files are in `{run}`; attention maps are in the Attention tab.")
    return " ".join(sentences)
