"""Measure the cost of recording attention in a training run.

Train a translator of 6 + 6 layers x 8 heads on the built-in corpus for 35 steps and time the complete recording of one
example of 128 tokens a side (three kinds of maps): scores against gold labels, curves, picture and file. Print medians
and the fraction of the training time at the default interval between evaluations; and how far apart the recordings
between evaluations, maps alone, must be to take 1% of the time, to which a run limits them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.inputs import NoSettings
from benchmarks.ours import composed
from data.primer import rows
from train import train
from training.config import TrainerConfig
from training.evaluation.maps import AttentionRecorder

LENGTH = 128

SETTINGS = (
    f"task=translate name=cost model.layers=6 model.heads=8 model.width=256 model.context={LENGTH}"
    " attention.examples=0 data.sentences=6000 tokenizer.vocab_size=1000 trainer.steps=35 trainer.evaluate_every=5"
    " trainer.evaluate_sentences=8 trainer.test=false trainer.limit_evaluations=false attention.every=2"
).split()
"""The default translator recipe with a larger model, frequent, short evaluations, and recordings without a limit."""


def recording_cost(_: NoSettings) -> None:
    """Measure the fraction of training time spent on recording attention. Takes several minutes."""
    sentences = rows("sentences", 200, seed=9)
    source, target = (" ".join(row[side] for row in sentences[:60]) for side in ("source", "target"))
    recorded, between = list[float](), list[float]()
    AttentionRecorder.record = timed(AttentionRecorder.record, recorded)  # type: ignore[method-assign]
    AttentionRecorder.record_maps = timed(AttentionRecorder.record_maps, between)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        config = composed([*SETTINGS, f"runs={folder}"])
        config.attention.probes = [f"{source} ||| {target}"]
        start = time.perf_counter()
        train(config)
        seconds = time.perf_counter() - start - sum(recorded) - sum(between)
        steps = config.trainer.steps or 1
        (size,) = {file.stat().st_size for file in Path(folder).glob("*/attention/step_*30.safetensors")}
    interval = TrainerConfig().evaluate_every
    record, alone = statistics.median(recorded), statistics.median(between)
    print(f"step, including evaluations and checkpoints: {1000 * seconds / steps:.0f} ms")
    print(f"recording ({size / 1e6:.1f} MB): {1000 * record:.0f} ms, median of {len(recorded)}")
    print(f"recording every {interval} steps: {100 * record / (interval * seconds / steps):.2f} % of the training time")
    print(f"between evaluations: {1000 * alone:.0f} ms, median of {len(between)}")
    print(f"1 % of the training time: one every {100 * alone / (seconds / steps):.0f} steps")


def timed(record: Callable[[AttentionRecorder, int], None], taken: list[float]) -> Callable[..., None]:
    """Return a method that appends its seconds to `taken`."""

    def method(self: AttentionRecorder, step: int) -> None:
        start = time.perf_counter()
        record(self, step)
        taken.append(time.perf_counter() - start)

    return method
