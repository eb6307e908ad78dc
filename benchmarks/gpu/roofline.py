"""The lower bound of a training step's time, computed: operations and bytes over rates, and launches over the host's
speed.

    products  = 6 N P / R               P = 12 L C² + V C weights (embeddings tied), N tokens of a step
    attention = 7 T C L N / (a R)       causal: 2 T C forwards and 5 T C backwards per token and layer
    memory    = (156 C L N + 12 V N + 40 P) / B
    launches  = (40 L + 30) x 4 µs      where no CUDA graph replays them

R, B: matrix and memory rate, of the data sheet until they are measured; a: the share of R that a fused attention kernel
reaches. 156 bytes per token, layer and unit of width: what norms, activations, residuals and the inputs of attention
read and write in bf16 when each is fused as far as it goes, 26 numbers forwards and twice that backwards. 12 bytes per
token and word: logits and their gradient, six passes in bf16. 40 bytes per weight: gradient, master copy, two moments,
the new weight. The first two use the matrix units, and the third can be done while they work only where a kernel does
both; the fourth runs beside all of them: a step takes at least the larger of (products + attention + memory) and
launches.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.training.projection import Model

MATRIX_RATE, MEMORY_RATE, LINK_RATE = 989e12, 4.8e12, 450e9
"""Of one H200 by the data sheet: dense bf16 FLOP/s, bytes/s of its memory, bytes/s to the others over NVLink in one
direction."""

ATTENTION_SHARE = {64: 0.25, 128: 0.4}
"""By head width, at 1,024 tokens: an assumption, from kernels that were published for other shapes, until it is
measured."""

PER_LAUNCH = 4e-6
"""Seconds that the host needs for a kernel."""

GPUS = 8


@dataclass(frozen=True)
class Work:
    """A training step."""

    name: str
    weights: float
    """That are multiplied by every token of the step (of a translator, by half of them)."""
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int
    tokens: int

    def times(self, matrix_rate: float = MATRIX_RATE, memory_rate: float = MEMORY_RATE) -> dict[str, float]:
        """Seconds by cause: products, attention, memory, launches."""
        attention_rate = ATTENTION_SHARE[128 if self.width // self.heads >= 128 else 64] * matrix_rate
        moved = 156 * self.width * self.layers * self.tokens + 12 * self.vocabulary * self.tokens + 40 * self.weights
        return {
            "products": 6 * self.weights * self.tokens / matrix_rate,
            "attention": 7 * self.context * self.width * self.layers * self.tokens / attention_rate,
            "memory": moved / memory_rate,
            "launches": (40 * self.layers + 30) * PER_LAUNCH,
        }

    def least_seconds(self, matrix_rate: float = MATRIX_RATE, memory_rate: float = MEMORY_RATE) -> float:
        """Of a whole step."""
        times = self.times(matrix_rate, memory_rate)
        return max(times["products"] + times["attention"] + times["memory"], times["launches"])

    @property
    def operations(self) -> float:
        """That a utilisation counts: 6 P + 12 L T C per token."""
        return (6 * self.weights + 12 * self.layers * self.context * self.width) * self.tokens

    @property
    def all_reduce(self) -> float:
        """Seconds in which eight GPUs add up bf16 gradients around a ring."""
        return 2 * (GPUS - 1) / GPUS * 2 * self.weights / LINK_RATE


def of_gpt(model: Model, batch: int) -> Work:
    """A step of a GPT."""
    name, tokens = f"{model.name}, batch {batch}", batch * model.context
    return Work(name, model.parameters, **model.size, vocabulary=model.vocabulary, tokens=tokens)


def steps() -> list[Work]:
    """The steps of `benchmarks/gpu/training.py`. Half of a translator's tokens pass through each of its sides."""
    from benchmarks.gpu.training import TRAINED, TRANSLATOR_TOKENS

    gpts = [of_gpt(rows.model, batch) for rows in TRAINED for batch in rows.ours]
    width, layers, words = 256, 3, 4000
    weights = (12 + 16) * layers * width**2 + words * width
    translators = [
        Work(f"translator, {tokens:,} tokens", weights / 2, 2 * layers, width, 4, 16, words // 2, tokens)
        for tokens in TRANSLATOR_TOKENS
    ]
    return gpts + translators


def roofline_table(matrix_rate: float = 0.0, memory_rate: float = 0.0) -> str:
    """For every step its times, the largest of them, the utilisation at that bound, and the all-reduce of eight GPUs.
    Rates of 0 mean the data sheet's."""
    measured = bool(matrix_rate and memory_rate)
    rates = (matrix_rate, memory_rate) if measured else (MATRIX_RATE, MEMORY_RATE)
    source = "measured on the machine" if measured else "of the data sheet, which no program reaches"
    lines = [
        f"Computed with rates {source}: {rates[0] / 1e12:.0f} TFLOP/s, {rates[1] / 1e12:.2f} TB/s. Milliseconds.",
        "",
        "| step | products | attention | memory | launches | bound by | at least | MFU at most | all-reduce of eight |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for work in steps():
        times = work.times(*rates)
        least = work.least_seconds(*rates)
        cells = [f"{1000 * seconds:.2g}" if seconds < 0.01 else f"{1000 * seconds:.0f}" for seconds in times.values()]
        bound = max(times, key=lambda name: times[name])
        share = f"{1000 * work.all_reduce:.2g} ({100 * work.all_reduce / least:.1f} %)"
        last = [bound, f"{1000 * least:.3g}", f"{100 * work.operations / least / MATRIX_RATE:.0f} %", share]
        lines.append(f"| {work.name} | " + " | ".join([*cells, *last]) + " |")
    return "\n".join(lines)
