"""The cost of recording attention in a training run.

Trains a translator of 6 + 6 layers x 8 heads on the built-in corpus for 35 steps and times the recording of one example
of 128 tokens a side (three kinds of maps) with everything that belongs to it: scores against gold, curves, picture,
file. Prints medians and the share of the training time at the default interval between evaluations.
"""

from __future__ import annotations

import statistics
import tempfile
import time
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
    " trainer.evaluate_sentences=8 trainer.test=false"
).split()
"""The translator's own recipe in a larger shape, evaluated often and briefly."""


def recording_cost(_: NoSettings) -> None:
    """The share of a training run's time that recording attention takes; some minutes."""
    sentences = rows("sentences", 200, seed=9)
    source, target = (" ".join(row[side] for row in sentences[:60]) for side in ("source", "target"))
    recorded: list[float] = []
    inner = AttentionRecorder.record

    def timed(self: AttentionRecorder, step: int) -> None:
        start = time.perf_counter()
        inner(self, step)
        recorded.append(time.perf_counter() - start)

    AttentionRecorder.record = timed  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        config = composed([*SETTINGS, f"runs={folder}"])
        config.attention.probes = [f"{source} ||| {target}"]
        start = time.perf_counter()
        train(config)
        seconds = time.perf_counter() - start - sum(recorded)
        steps = config.trainer.steps or 1
        (size,) = {file.stat().st_size for file in Path(folder).glob("*/attention/step_*30.safetensors")}
    interval = TrainerConfig().evaluate_every
    record = statistics.median(recorded)
    print(f"a step, evaluations and checkpoints included: {1000 * seconds / steps:.0f} ms")
    print(f"a recording ({size / 1e6:.1f} MB): {1000 * record:.0f} ms, median of {len(recorded)}")
    print(f"share of the training time, every {interval} steps: {100 * record / (interval * seconds / steps):.2f} %")
