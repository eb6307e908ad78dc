"""What checkpoints cost: how long they block training, how much memory they need, and how long a resume takes."""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from benchmarks.report import markdown_table
from data.batches.batch import Batch, BatchStream
from model.config import ModelConfig
from training.checkpoints.loading import checkpoint_path, read_checkpoint
from training.checkpoints.summary import read_summary
from training.config import TrainConfig, TrainerConfig
from training.hardware.device import Hardware
from training.run_folder.loaded_run import Model
from training.run_folder.log import RunLog
from training.trainer import Trainer

VOCABULARY = 65


@dataclass
class CheckpointCostSettings:
    """Settings of `checkpoint_cost`. The default model has 10.7M parameters."""

    layers: int = 6
    """Blocks."""
    heads: int = 6
    """Heads of each block."""
    width: int = 384
    """Width of the model."""
    context: int = 64
    """Tokens of a sequence. Short steps are the hard case: more of a checkpoint is left to write at the next update."""
    batch: int = 1
    """Sequences of a step."""
    ema: float = 0.0
    """Decay rate of the average of the weights; 0: none."""
    saves: int = 9
    """Measured checkpoints."""
    folder: str | None = None
    """Folder on the disk to measure; null uses a temporary one."""


class RandomBatches(BatchStream):
    """Random tokens."""

    def __init__(self, batch: int, context: int) -> None:
        super().__init__(seed=0)
        self.shape = batch, context + 1

    @property
    def epoch_batches(self) -> int:
        """A single batch."""
        return 1

    @property
    def epoch(self) -> float:
        """No epochs."""
        return 0.0

    def next_batch(self) -> Batch:
        """Return random tokens."""
        tokens = torch.randint(VOCABULARY, self.shape)
        return Batch(tokens[:, :-1], tokens[:, 1:])


def build(settings: CheckpointCostSettings) -> Trainer:
    """Return a trainer on the CPU in float32."""
    from model.gpt import GPT

    size = ModelConfig(
        layers=settings.layers, heads=settings.heads, width=settings.width, context=settings.context, dropout=0.0
    )
    config = TrainConfig(model=size, trainer=TrainerConfig(ema=settings.ema, keep=0, compile="off"))
    model: Model = GPT(size, VOCABULARY, 0)
    cpu = Hardware(torch.device("cpu"), torch.float32, None, "cpu")
    return Trainer(config, model, RandomBatches(settings.batch, settings.context), cpu, 1.0)


def memory(name: str) -> float:
    """Return a value of /proc/self/status in MB: VmRSS (now) or VmHWM (the peak since `reset_peak`)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(rf"^{name}:\s+(\d+)", status, re.MULTILINE)[0]) / 1024


def reset_peak() -> None:
    """Begin to measure the peak again."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def timed_step(trainer: Trainer, *, save: bool) -> tuple[float, float, float, float]:
    """Run one step -> seconds of the step, of which blocked by the checkpoint; seconds until it is written, and the
    increase of the peak memory in MB."""
    blocked = 0.0
    saver = trainer.saver
    wait = saver.before_update

    def before_update() -> None:
        nonlocal blocked
        start = time.perf_counter()
        wait()
        blocked += time.perf_counter() - start

    saver.before_update = before_update  # type: ignore[method-assign]
    before = memory("VmRSS")
    reset_peak()
    start = time.perf_counter()
    if save:
        saver.save()
        blocked += time.perf_counter() - start
    trainer.step()
    took = time.perf_counter() - start
    saver.wait()
    written = time.perf_counter() - start
    saver.before_update = wait  # type: ignore[method-assign]
    return took, blocked, written, memory("VmHWM") - before


def checkpoint_cost(settings: CheckpointCostSettings) -> None:
    """Print the cost of checkpoints and of a resume."""
    trainer = build(settings)
    weights = 4 * sum(parameter.numel() for parameter in trainer.model.parameters()) / 2**20
    with tempfile.TemporaryDirectory(dir=settings.folder) as folder:
        run = Path(folder)
        log = RunLog(run, 0)
        trainer.data_key = ""
        with trainer.saver.opened(run, log):
            for save in (True, False, True):
                timed_step(trainer, save=save)
            plain = [timed_step(trainer, save=False) for _ in range(settings.saves)]
            saving = [timed_step(trainer, save=True) for _ in range(settings.saves)]
        log.close()
        rows = [
            ("blocked per checkpoint, median", f"{1e3 * median(each[1] for each in saving):.0f} ms"),
            ("blocked per checkpoint, maximum", f"{1e3 * max(each[1] for each in saving):.0f} ms"),
            ("step without a checkpoint", f"{1e3 * median(each[0] for each in plain):.0f} ms"),
            ("step with a checkpoint", f"{1e3 * median(each[0] for each in saving):.0f} ms"),
            ("until it is on the disk", f"{1e3 * median(each[2] for each in saving):.0f} ms"),
            ("peak memory of a step without it", f"{max(each[3] for each in plain):.0f} MB"),
            ("peak memory of a step with it", f"{max(each[3] for each in saving):.0f} MB"),
            ("one copy of the weights", f"{weights:.0f} MB"),
            *resume_rows(settings, run),
        ]
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(markdown_table([f"{parameters / 1e6:.1f}M parameters", f"{torch.get_num_threads()} threads"], rows))


def resume_rows(settings: CheckpointCostSettings, run: Path) -> list[tuple[str, str]]:
    """Measure what a resume adds to a start: loading, of which checksums, and the rest."""
    path = checkpoint_path(run)
    read_checkpoint(run, "last", with_state=True)  # into the page cache
    start = time.perf_counter()
    found = read_checkpoint(run, "last", with_state=True)
    loaded = time.perf_counter() - start
    start = time.perf_counter()
    for name, checksum in read_summary(path)[1].items():
        assert checksum.difference(path / name) is None
    checked = time.perf_counter() - start
    fresh = build(settings)
    start = time.perf_counter()
    assert found.state is not None
    fresh.restore(found.weights, found.state)
    restored = time.perf_counter() - start
    size = sum(each.stat().st_size for each in path.iterdir()) / 2**20
    return [
        (f"loading {size:.0f} MB from the page cache", f"{1e3 * loaded:.0f} ms"),
        ("of which verifying checksums", f"{1e3 * checked:.0f} ms"),
        ("resume without loading", f"{1e3 * restored:.0f} ms"),
    ]
