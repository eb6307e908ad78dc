"""A trainer of a tiny translator on four batches, and functions that train and resume it."""

import json
from collections.abc import Callable
from pathlib import Path

import torch

from data.batches.batch import IGNORED, Batch, BatchStream
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.loading import checkpoint_path
from training.config import OptimConfig, ScheduleConfig, TrainConfig, TrainerConfig
from training.hardware.device import Hardware
from training.processes.single_process import SINGLE, Processes
from training.run_folder.log import RunLog
from training.trainer import Evaluate, Trainer

CPU = Hardware(torch.device("cpu"), torch.float32, None, "cpu")


class Listed(BatchStream):
    """The same batches over and over."""

    def __init__(self, batches: list[Batch]) -> None:
        super().__init__(seed=0)
        self.batches = batches

    @property
    def epoch_batches(self) -> int:
        return len(self.batches)

    @property
    def epoch(self) -> float:
        return self._epoch + self._position / len(self.batches)

    def next_batch(self) -> Batch:
        batch = self.batches[self._position]
        self._epoch, self._position = divmod(self._epoch * len(self.batches) + self._position + 1, len(self.batches))
        return batch


def pairs(seed: int = 0) -> list[Batch]:
    """Return four one-row batches of translation with targets of different lengths."""
    torch.manual_seed(seed)
    batches = []
    for length in (3, 9, 5, 7):
        targets = torch.full((1, 9), IGNORED)
        targets[0, :length] = torch.randint(4, 20, (length,))
        batches.append(Batch(torch.randint(4, 20, (1, 9)), targets, torch.randint(4, 20, (1, 6))))
    return batches


def together(batches: list[Batch]) -> Batch:
    """Return the same rows as one batch."""
    return Batch(
        torch.cat([b.inputs for b in batches]),
        torch.cat([b.targets for b in batches]),
        torch.cat([b.source for b in batches if b.source is not None]),
    )


def trainer(
    batches: list[Batch],
    hardware: Hardware = CPU,
    processes: Processes = SINGLE,
    *,
    tie_embeddings: bool = True,
    **settings: object,
) -> Trainer:
    config = TrainConfig(
        task="translate",
        trainer=TrainerConfig(**({"steps": 5, "log_every": 1, "evaluate_every": 5} | settings)),  # type: ignore[arg-type]
        schedule=ScheduleConfig(warmup=0, kind="constant"),
        optim=OptimConfig(lr=1e-2),
    )
    torch.manual_seed(1)
    shape = ModelConfig(layers=1, heads=2, width=16, context=16, tie_embeddings=tie_embeddings)
    model = EncoderDecoder(shape, 20, 20, shared=True)
    return Trainer(config, model, Listed(batches), hardware, 1.0, processes)


def curve(path: Path) -> list[dict]:
    """Return the lines of metrics.jsonl without values that depend on a clock."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [
        {key: value for key, value in line.items() if key not in ("seconds", "tokens_per_second")} for line in lines
    ]


def train(each: Trainer, folder: Path, evaluate: Evaluate = lambda step, record: 1.0 / step) -> None:
    """Train in `folder` with a given validation loss."""
    folder.mkdir()
    log = RunLog(folder, 0)
    try:
        each.train(folder, log, evaluate)
    finally:
        log.close()


def resumed(folder: Path, **settings: object) -> Trainer:
    """Return a new trainer restored from the last checkpoint in `folder`."""
    checkpoint = checkpoint_path(folder, "last")
    again = trainer(pairs(), **settings)
    again.restore(load_weights(checkpoint), load_state(checkpoint))
    return again


def go_on(each: Trainer, folder: Path, evaluate: Callable[[RunLog], Evaluate]) -> None:
    """Continue training in `folder`, as a resume does."""
    log = RunLog(folder, each.progress.step, each.progress.evaluated_step)
    try:
        each.train(folder, log, evaluate(log))
    finally:
        log.close()
