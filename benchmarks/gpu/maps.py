"""Measure the cost of recording all attention maps to disk, relative to the steps between two evaluations."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from attention_maps.files import store
from attention_maps.record.example import Example
from attention_maps.record.recorder import record
from benchmarks.gpu.figures import Figure, Sheet, StageSettings
from benchmarks.gpu.timing import mean_seconds
from benchmarks.gpu.training import TINY, TRAINED, own_settings
from training.config import AttentionConfig, TrainerConfig
from training.hardware.compilation import eagerly

STEPS, RECORDINGS = 20, 5


def maps(settings: StageSettings) -> None:
    """Measure recording attention maps relative to training steps of the 10.7M model."""
    from benchmarks.ours import trainer_of

    sheet = Sheet(settings.to)
    model = TINY[0].model if settings.dry_run else TRAINED[-1].model
    batch = 2 if settings.dry_run else 64
    trainer = trainer_of(own_settings(model, batch, compiled=not settings.dry_run), model.vocabulary)
    mean_seconds(trainer.step, 3)
    step = mean_seconds(trainer.step, STEPS)

    length = min(AttentionConfig().max_tokens, model.context)
    ids = torch.randint(4, model.vocabulary, (length,)).tolist()
    pieces = [f"#{number}" for number in range(length)]
    example = Example(ids, pieces, ids[1:], pieces[1:])
    times = []
    with TemporaryDirectory() as folder, eagerly(trainer.compiled):
        for number in range(RECORDINGS + 1):
            started = time.perf_counter()
            recorded = record(trainer.model, [example], special_ids=range(4), step=number, max_tokens=length)
            store.save(recorded, Path(folder))
            times.append(time.perf_counter() - started)
    recording = median(times[1:])
    examples, interval = AttentionConfig().examples, TrainerConfig().evaluate_every
    share = examples * recording / (interval * step)
    what = f"{model.name}, one example of {length} tokens, all maps, written to disk"
    often = f"{examples} examples every {interval} steps of {1000 * step:.3g} ms"
    beside = f"{often}: {100 * share:.2g} % of the training time"
    facts = {"recording": recording, "step": step, "share": share}
    sheet.add(Figure(what, f"{1000 * recording:.3g} ms", beside, facts=facts))
