"""A trainer of a small model on a task that takes attention, for the tests of this folder."""

from __future__ import annotations

import torch
from torch import Tensor

from data.batches.batch import IGNORED, Batch, BatchStream
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import OptimConfig, ScheduleConfig, TrainConfig, TrainerConfig
from training.counters import Interval
from training.hardware.device import Hardware
from training.trainer import Trainer

VOCABULARY, HALF, ROWS = 24, 32, 16


class Repeats(BatchStream):
    """Endless rows whose second half repeats the first half, which only attention can predict."""

    epoch_batches, epoch = 1, 0.0

    def __init__(self, task: str, seed: int) -> None:
        super().__init__(seed)
        self.task = task
        self.generator = torch.Generator().manual_seed(seed)

    def next_batch(self) -> Batch:
        half = torch.randint(1, VOCABULARY, (ROWS, HALF), generator=self.generator)
        if self.task == "gpt":
            rows = torch.cat((half, half), dim=1)
            return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        real = torch.arange(HALF) < torch.randint(HALF // 2, HALF + 1, (ROWS, 1), generator=self.generator)
        targets = half.masked_fill(~real, IGNORED)
        return Batch(half.roll(1, dims=1), targets, half, real)


def trainer(device: torch.device, dtype: torch.dtype, task: str = "gpt", order: int = 1, **settings: object) -> Trainer:
    """Return a small trainer. `settings` are fields of `TrainerConfig`, plus `dropout` and the optimiser's `kind`."""
    dropout, kind = settings.pop("dropout", 0.0), settings.pop("kind", "adamw")
    sizes = {"layers": 2, "heads": 2, "width": 64, "context": 2 * HALF, "vocab_multiple": 64}
    shape = ModelConfig(**sizes, dropout=dropout, tie_embeddings=kind != "scion")  # type: ignore[arg-type]
    config = TrainConfig(
        task=task,
        model=shape,
        trainer=TrainerConfig(**({"steps": 10_000, "compile": "off"} | settings)),  # type: ignore[arg-type]
        optim=OptimConfig(kind=kind, lr=1e-3),  # type: ignore[arg-type]
        schedule=ScheduleConfig(kind="constant", warmup=0),
    )
    torch.manual_seed(1)
    model = GPT(shape, VOCABULARY) if task == "gpt" else EncoderDecoder(shape, VOCABULARY, VOCABULARY, shared=True)
    each = Trainer(config, model, Repeats(task, order), Hardware(device, dtype, None, str(device)), 1.0)
    model.train()
    return each


def losses(each: Trainer, steps: int) -> Tensor:
    """Return the training loss of each of the next `steps` steps."""
    result = []
    for _ in range(steps):
        each.step()
        result.append(each.since_log.mean_loss)
        each.since_log = Interval()
    return torch.tensor(result)
