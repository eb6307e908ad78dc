"""Compute a lower bound on the time of a training step from operations, memory traffic and kernel launches.

    products  = 6 N P / R               P = 12 L C² + V C weights (embeddings tied), N tokens per step
    attention = 7 T C L N / (a R)       causal: 2 T C forward and 5 T C backward per token and layer
    memory    = (156 C L N + 12 V N + 40 P) / B
    launches  = (40 L + 30) x 4 µs      without CUDA graphs

R, B: matrix throughput and memory bandwidth, from the data sheet until measured; a: fraction of R that a fused
attention kernel reaches. 156 bytes per token, layer and unit of width: reads and writes of norms, activations,
residuals and attention inputs in bf16, fused where possible, 26 numbers in the forward pass and twice as many in the
backward pass. 12 bytes per token and vocabulary entry: logits and their gradient, six passes in bf16. 40 bytes per
weight: gradient, master weight, two moments, new weight. Matrix products, attention and memory traffic are assumed not
to overlap with each other; launches overlap with all three. A step therefore takes at least the larger of (products +
attention + memory) and launches.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.report import markdown_table
from benchmarks.shape import Shape
from benchmarks.training.projection import Model, all_reduce_seconds

MATRIX_RATE, MEMORY_RATE, LINK_RATE = 989e12, 4.8e12, 450e9
"""Data-sheet rates of one H200: dense bf16 FLOP/s, memory bytes/s, and NVLink bytes/s in one direction."""

ATTENTION_SHARE = {64: 0.25, 128: 0.4}
"""Fraction of the matrix rate by head width at 1,024 tokens, assumed from published kernels for other shapes."""

PER_LAUNCH = 4e-6
"""Host time per kernel launch, in seconds."""

GPUS = 8


@dataclass(frozen=True)
class Work(Shape):
    """Dimensions of a training step."""

    vocabulary: int
    tokens: int
    weights: float
    """Number of weights that a step updates and exchanges."""
    name: str
    passed: float = 1.0
    """Fraction of weights and layers that a token passes through: half in a translator, those of its side."""

    def times(self, matrix_rate: float, memory_rate: float) -> dict[str, float]:
        """Return seconds by cause: products, attention, memory, launches."""
        attention_rate = ATTENTION_SHARE[128 if self.width // self.heads >= 128 else 64] * matrix_rate
        layers, weights = self.passed * self.layers, self.passed * self.weights
        moved = 156 * self.width * layers * self.tokens + 12 * self.vocabulary * self.tokens + 40 * self.weights
        return {
            "products": 6 * weights * self.tokens / matrix_rate,
            "attention": 7 * self.context * self.width * layers * self.tokens / attention_rate,
            "memory": moved / memory_rate,
            "launches": (40 * self.layers + 30) * PER_LAUNCH,
        }

    @property
    def operations(self) -> float:
        """Operations of a step as counted for MFU: 6 P + 12 L T C per token."""
        return self.passed * (6 * self.weights + 12 * self.layers * self.context * self.width) * self.tokens

    @property
    def all_reduce(self) -> float:
        """Time of a ring all-reduce of float32 gradients over eight GPUs, in seconds."""
        return all_reduce_seconds(self.weights, GPUS, LINK_RATE)


def of_gpt(model: Model, batch: int) -> Work:
    """Return the dimensions of one training step of a GPT."""
    name, tokens = f"{model.name}, batch {batch}", batch * model.context
    return Work(**model.size, vocabulary=model.vocabulary, tokens=tokens, weights=model.parameters, name=name)


def of_translator(tokens: int) -> Work:
    """Return the dimensions of one training step of tatoeba's translator (3 + 3 layers, width 256, 4,000 pieces).

    Half of the tokens pass through each side; only those of the target have logits. Cross-attention counts with its
    weights, not as a layer.
    """
    layers, width, words = 3, 256, 4000
    weights = (12 + 16) * layers * width**2 + words * width
    name = f"translator, {tokens:,} tokens"
    return Work(2 * layers, 4, width, 16, words // 2, tokens, weights, name, passed=0.5)


def steps() -> list[Work]:
    """Return our steps in `benchmarks/gpu/training.py`, by model."""
    from benchmarks.gpu.training import BABY, GPT2, MAIN, MEDIUM, OURS, SIZES, TRANSLATOR_TOKENS, WIDE_HEADS

    order = [GPT2, WIDE_HEADS, MEDIUM, BABY]
    groups = sorted((*MAIN, *SIZES), key=lambda group: (order.index(group.model), group.batch))
    gpts = [of_gpt(group.model, group.batch) for group in groups if OURS in group.who]
    return gpts + [of_translator(tokens) for tokens in TRANSLATOR_TOKENS]


def bottleneck(times: dict[str, float]) -> str:
    """Return the largest of the times that are added, or `launches` if they take longer than all of these together."""
    added = {name: seconds for name, seconds in times.items() if name != "launches"}
    return "launches" if times["launches"] > sum(added.values()) else max(added, key=lambda name: added[name])


def roofline_table(matrix_rate: float, memory_rate: float) -> str:
    """Return a table with each step's times, bottleneck, lower bound, MFU at this bound, and all-reduce time on eight
    GPUs. Rates of 0 mean data-sheet rates."""
    measured = bool(matrix_rate and memory_rate)
    rates = (matrix_rate, memory_rate) if measured else (MATRIX_RATE, MEMORY_RATE)
    source = "rates measured on the machine" if measured else "data-sheet rates, which no program reaches"
    rows = []
    for work in steps():
        times = work.times(*rates)
        launches = times["launches"]
        least = max(sum(times.values()) - launches, launches)
        cells = [f"{1000 * seconds:.2g}" if seconds < 0.01 else f"{1000 * seconds:.0f}" for seconds in times.values()]
        cells += [bottleneck(times), f"{1000 * least:.3g}"]
        cells += [f"{100 * work.operations / least / MATRIX_RATE:.0f} %"]
        cells += [f"{1000 * work.all_reduce:.2g} ({100 * work.all_reduce / least:.1f} %)"]
        rows.append([work.name, *cells])
    headings = "step, products, attention, memory, launches, bound by, minimum, max. MFU".split(", ")
    return (
        f"Computed with {source}: {rates[0] / 1e12:.0f} TFLOP/s, {rates[1] / 1e12:.2f} TB/s. Times in milliseconds.\n\n"
        + markdown_table([*headings, "all-reduce, 8 GPUs"], rows)
    )
