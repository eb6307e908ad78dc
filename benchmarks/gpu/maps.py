"""Measure the cost of recording all attention maps to disk, relative to the steps between two evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from attention_maps.files import store
from attention_maps.record.example import Example
from benchmarks.device import mean_seconds
from benchmarks.gpu.figures import Figure, Inputs, attempt
from benchmarks.gpu.training import BABY, TINY, Model, own_settings
from benchmarks.ours import trainer_of
from interpretability.recorder import record
from training.config import AttentionConfig, TrainerConfig
from training.hardware.compilation import eagerly

STEPS, RECORDINGS = 20, 5


def maps(inputs: Inputs) -> Iterator[Figure]:
    """Measure recording attention maps relative to training steps of the 10.7M model."""
    model, batch = (TINY, 2) if inputs.dry_run else (BABY, 64)
    length = min(AttentionConfig().max_tokens, model.context)
    name = f"{model.name}, one example of {length} tokens, all maps, written to disk"
    yield attempt(name, partial(measure_recording, name, model, batch, length, not inputs.dry_run))


def measure_recording(name: str, model: Model, batch: int, length: int, compiled: bool) -> Figure:
    """Measure a training step, and the recording of an example."""
    trainer = trainer_of(own_settings(model, batch, compiled), model.vocabulary)
    mean_seconds(trainer.step, 3)
    step = mean_seconds(trainer.step, STEPS)

    ids = torch.randint(4, model.vocabulary, (length,)).tolist()
    pieces = [f"#{number}" for number in range(length)]
    example, numbers = Example(ids, pieces, ids[1:], pieces[1:]), count()
    with TemporaryDirectory() as folder, eagerly(trainer.loss.compiled):

        def record_once() -> None:
            recording = record(trainer.model, [example], special_ids=range(4), step=next(numbers), max_tokens=length)
            store.save(recording, Path(folder))

        record_once()
        seconds = median(mean_seconds(record_once, 1) for _ in range(RECORDINGS))
    examples, interval = AttentionConfig().examples, TrainerConfig().evaluate_every
    share = examples * seconds / (interval * step)
    often = f"{examples} examples every {interval} steps of {1000 * step:.3g} ms"
    beside = f"{often}: {100 * share:.2g} % of the training time"
    return Figure(name, f"{1000 * seconds:.3g} ms", beside, facts={"recording": seconds, "step": step, "share": share})
