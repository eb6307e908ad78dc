"""What recording attention costs a training run, on this machine.

    python benchmarks/attention/attention_recording.py

Trains a translator of 6 + 6 layers x 8 heads on the embedded corpus for a few dozen steps and times the recording of
one example of 128 tokens a side (three kinds of maps), with all that belongs to it: scores against gold, curves,
picture, file. Prints medians and the share of the training time at the default interval between evaluations. Takes some
minutes; nothing else should run.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from configs.compose import compose_config
from data.primer import rows
from train import train
from training.config import TrainConfig, TrainerConfig
from training.evaluation.maps import AttentionRecorder

LENGTH = 128


def main() -> None:
    """Train, time, print."""
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
        config = built(folder)
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


def built(folder: str) -> TrainConfig:
    """The translator's own recipe in a larger shape, evaluated often and briefly."""
    from omegaconf import OmegaConf

    settings = (
        f"task=translate name=cost runs={folder} model.layers=6 model.heads=8 model.width=256 model.context={LENGTH}"
        " attention.examples=0 data.sentences=6000 tokenizer.vocab_size=1000 trainer.steps=35 trainer.evaluate_every=5"
        " trainer.evaluate_sentences=8 trainer.test=false"
    )
    composed, problems = compose_config("train", TrainConfig, settings.split())
    if problems:
        raise SystemExit("\n".join(problems))
    config: Any = OmegaConf.to_object(composed)  # type: ignore[arg-type]
    return config


if __name__ == "__main__":
    main()
