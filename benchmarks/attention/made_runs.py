"""Create a log directory with many runs: one run is trained, the others are copies of its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.ours import composed
from train import train

SETTINGS = (
    "task=translate name=trained model.layers=2 model.heads=4 model.width=64 attention.scored=4 attention.keep=null"
    " data.sentences=2000 data.valid_tokens=200 tokenizer.vocab_size=600 trainer.evaluate_every=1"
    " trainer.evaluate_sentences=2 trainer.test=false"
).split()
"""A small translator that is evaluated after every step: its recordings, curves, images and texts are real."""

SWEEPS = ("lr", "dropout", "width", "layers")


def make_runs(folder: Path, runs: int, recordings: int) -> None:
    """Train one run with this number of recordings, and copy it until `folder` contains `runs` runs, in four sweeps."""
    train(composed([*SETTINGS, f"trainer.steps={recordings}", f"runs={folder.parent}"]))
    trained = folder.parent / "trained"
    shutil.rmtree(trained / "checkpoints")  # not read by TensorBoard, and large
    for number in range(runs):
        sweep = SWEEPS[number % len(SWEEPS)]
        name = f"translate-primer-{sweep}-{number // len(SWEEPS):03d}-warmup-200-label-smoothing-0.1-seed-{number % 3}"
        shutil.copytree(trained, folder / f"sweep-{sweep}" / name)
    shutil.rmtree(trained)
