"""Measure how our training scales on this machine with width, depth, context, batch size and vocabulary size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.contender import Benchmark, Contender
from benchmarks.harness import MeasureSettings, measure
from benchmarks.inputs import existing
from benchmarks.shape import Shape, model_settings
from benchmarks.training.memory_model import memory_tables

HEAD_WIDTH = 64


@dataclass
class ScalingSettings(MeasureSettings):
    """Settings of `scaling`."""

    data: str = "input.txt"
    """A text file of at least a megabyte."""

    rounds: int = 3
    seconds: float = 1.0
    warm_up: float = 1.0


@dataclass(frozen=True)
class Point:
    """Size of a model and its batch."""

    layers: int = 4
    width: int = 256
    context: int = 128
    batch_size: int = 32
    vocabulary: int | None = None
    """Size of the BPE vocabulary; None means characters."""

    @property
    def size(self) -> dict[str, int]:
        """Size of the model."""
        return Shape(self.layers, self.width // HEAD_WIDTH, self.width, self.context).size

    @property
    def name(self) -> str:
        """Name of the row in the table."""
        words = f"{self.layers} layers, width {self.width}, T={self.context}, batch {self.batch_size}"
        return words + (f", V={self.vocabulary}" if self.vocabulary else "")

    def settings(self, text: Path) -> list[str]:
        """Return the overrides of `train.py`."""
        tokenizer = f"tokenizer=bpe tokenizer.vocab_size={self.vocabulary}" if self.vocabulary else "tokenizer=char"
        fixed = f"data=text {tokenizer} trainer.compile=off trainer.batch_size={self.batch_size}"
        return [*fixed.split(), f"data.path={text}", *model_settings(self.size)]


BASE = Point()
GRID = (
    BASE,
    *(replace(BASE, width=width) for width in (128, 384, 512)),
    *(replace(BASE, layers=layers) for layers in (2, 8)),
    *(replace(BASE, context=context, batch_size=4096 // context) for context in (64, 256, 512)),
    *(replace(BASE, batch_size=batch_size) for batch_size in (4, 16, 64, 128)),
    *(replace(BASE, vocabulary=vocabulary) for vocabulary in (2048, 8192)),
)
"""Points that differ from `BASE` in one respect (context at a constant number of tokens per batch)."""


def scaling(settings: ScalingSettings) -> None:
    """Measure tokens/s and peak memory by width, depth, context, batch and vocabulary; fit the memory model."""
    text = existing("data", settings.data)
    contenders = tuple(contender(point, text) for point in GRID)
    title = "Our training steps, AdamW, not compiled; one thing at a time is changed"
    result = measure(Benchmark("scaling", title, "tokens", contenders, BASE.name), settings)
    print("\n" + memory_tables(result))


def contender(point: Point, text: Path) -> Contender:
    """Return a contender for a point, with the facts required by the memory model."""
    from benchmarks.ours import composed, prepared_and_model
    from model.size import count_parameters, flops_per_token

    settings = point.settings(text)
    config = composed(settings)
    prepared, model = prepared_and_model(config)
    facts = {
        "parameters": count_parameters(model),
        "bytes_per_parameter": 20,
        **point.size,
        "batch_size": point.batch_size,
        "vocabulary": prepared.tokenizers[0].vocab_size,
    }
    operations = flops_per_token(model, point.context)
    return Contender(point.name, "benchmarks.ours:training", {"settings": settings}, True, operations, facts=facts)
