"""Summary of a run for the log and TensorBoard: model, data, hardware and settings."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from data.training_data import Prepared
from model.size import count_parameters
from training.config import TrainConfig, plain_settings
from training.hardware.gpu_attention import describe_attention
from training.run_folder.log import RunLog, code_block, duration, short
from training.run_folder.saved_config import to_yaml
from training.trainer import Trainer


def announce(
    run: Path, config: TrainConfig, data: Prepared, trainer: Trainer, log: RunLog, notes: Sequence[str]
) -> None:
    """Log the notes, one line on the model and one on the data; write settings and versions to TensorBoard."""
    for note in notes:
        log.line(note)
    vocabulary = " + ".join(str(tokenizer.vocab_size) for tokenizer in data.tokenizers)
    log.line(
        f"{run}: {config.task}, {short(count_parameters(trainer.model))} parameters,"
        f" {config.tokenizer.kind} vocabulary of {vocabulary}, {trainer.hardware.description},"
        f" attention by {describe_attention(config, trainer.hardware)}"
    )
    log.line(f"data: {data.summary()}")
    for note in data.notes:
        log.line(f"note: {note}")
    if config.trainer.steps is not None and config.schedule.warmup >= config.trainer.steps:
        log.line(
            f"note: schedule.warmup={config.schedule.warmup} is not shorter than trainer.steps={config.trainer.steps}: "
            "the peak learning rate is never reached"
        )
    if not trainer.progress.step:
        log.markdown("about", about(run, config, data, trainer), 0)
    log.markdown("settings", code_block(to_yaml(config)), 0)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    log.settings(run.name, plain_settings(replace(config, name=None)))
    log.markdown("versions", code_block(json.dumps(versions, indent=1)), 0)


def about(run: Path, config: TrainConfig, data: Prepared, trainer: Trainer) -> str:
    """Return the introduction of TensorBoard's Text tab: model, data, budget, progress and best loss so far."""
    shape, progress = config.model, trainer.progress
    if config.task == "gpt":
        kind = f"language model (GPT) of {counted(shape.layers, 'layer')}"
    else:
        kind = f"translator (encoder-decoder) of {shape.encoder_depth} + {shape.layers} layers"
    corpus = "the built-in corpus" if config.data.source == "primer" else f"{config.data.path} ({config.data.source})"
    limits = ((config.trainer.steps, "step"), (config.trainer.minutes, "minute"))
    budget = " or ".join(counted(limit, unit) for limit, unit in limits if limit)
    sentences = [
        f"**{run.name}** is a {kind}, {counted(shape.heads, 'head')} and width {shape.width}:"
        f" {short(count_parameters(trainer.model))} parameters, {config.tokenizer.kind} tokens.",
        f"Data: {corpus}, {data.summary()}.",
        f"Budget: {budget}, on {trainer.hardware.description}.",
    ]
    if progress.step:
        steps, tokens = counted(progress.step, "step"), short(progress.tokens)
        sentences.append(f"Trained for {steps}, {tokens} tokens, in {duration(progress.seconds)}.")
    if math.isfinite(progress.best_loss):
        sentences.append(f"Best validation loss: {progress.best_loss:.4f} nats per token at step {progress.best_step}.")
    sentences.append(f"All files are in `{run}`; attention maps are in the Attention tab.")
    return " ".join(sentences)


def counted(number: float, noun: str) -> str:
    """Return `1 layer`, `2 layers` or `3.25 minutes`."""
    text = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{text} {noun}" if number == 1 else f"{text} {noun}s"
