"""How our training scales on this machine: tokens per second and peak memory against width, depth, context, batch and
vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.contender import Benchmark, Contender
from benchmarks.harness import MeasureSettings, measure
from benchmarks.training.memory_model import memory_tables
from configs.errors import UserError
from configs.program import expanded

HEAD_WIDTH = 64


@dataclass
class ScalingSettings(MeasureSettings):
    """Settings of `scaling`."""

    data: str = "input.txt"
    """A text file of a megabyte or more."""

    rounds: int = 3
    """Turns of each contender that count; medians are taken over them."""

    seconds: float = 1.0
    """A turn repeats the step until this time has passed, at least once."""

    warm_up: float = 1.0
    """Seconds of the first turn of each contender, which is not counted."""


@dataclass(frozen=True)
class Point:
    """A model and a batch."""

    layers: int = 4
    width: int = 256
    context: int = 128
    batch_size: int = 32
    vocabulary: int | None = None
    """Pieces of a BPE vocabulary; None means characters."""

    @property
    def name(self) -> str:
        """As the table shows it."""
        words = f"{self.layers} layers, width {self.width}, T={self.context}, batch {self.batch_size}"
        return words + (f", V={self.vocabulary}" if self.vocabulary else "")

    def settings(self, text: Path) -> list[str]:
        """As the command line would say it."""
        tokenizer = (
            ["tokenizer=bpe", f"tokenizer.vocab_size={self.vocabulary}"] if self.vocabulary else ["tokenizer=char"]
        )
        return [
            "data=text",
            f"data.path={text}",
            *tokenizer,
            f"model.layers={self.layers}",
            f"model.width={self.width}",
            f"model.heads={self.width // HEAD_WIDTH}",
            f"model.context={self.context}",
            f"trainer.batch_size={self.batch_size}",
            "trainer.compile=off",
        ]


BASE = Point()
GRID = (
    BASE,
    *(replace(BASE, width=width) for width in (128, 384, 512)),
    *(replace(BASE, layers=layers) for layers in (2, 8)),
    *(replace(BASE, context=context, batch_size=4096 // context) for context in (64, 256, 512)),
    *(replace(BASE, batch_size=batch_size) for batch_size in (4, 16, 64, 128)),
    *(replace(BASE, vocabulary=vocabulary) for vocabulary in (2048, 8192)),
)
"""One thing at a time is changed."""


def scaling(settings: ScalingSettings) -> None:
    """Our tokens per second and peak memory against width, depth, context, batch and vocabulary; fits the
    memory model."""
    text = expanded(settings.data).absolute()
    if not text.is_file():
        raise UserError(f"data={settings.data}: no such file")
    contenders = tuple(contender(point, text) for point in GRID)
    title = "Our training steps, AdamW, not compiled; one thing at a time is changed"
    result = measure(Benchmark("scaling", title, "tokens", contenders, BASE.name), settings)
    print("\n" + memory_tables(result))


def contender(point: Point, text: Path) -> Contender:
    """A point with the numbers that the memory model is made of."""
    from benchmarks.ours import composed, prepared_and_model
    from model.size import count_parameters, flops_per_token

    settings = point.settings(text)
    config = composed(settings)
    prepared, model = prepared_and_model(config)
    facts = {
        "parameters": count_parameters(model),
        "bytes_per_parameter": 20,
        "layers": point.layers,
        "width": point.width,
        "heads": config.model.heads,
        "context": point.context,
        "batch_size": point.batch_size,
        "vocabulary": prepared.tokenizers[0].vocab_size,
    }
    operations = flops_per_token(model, point.context)
    return Contender(point.name, "benchmarks.ours:training", {"settings": settings}, True, operations, facts=facts)
