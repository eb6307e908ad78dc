"""Project the training speed of other machines from data-sheet rates, the measured utilisation and the memory model.

    seconds per step = N F / (u x peak x devices) + 2 (devices - 1) / devices x 4 P / bandwidth

N: tokens per step over all devices. F = 6 (12 L C² + V C) + 12 L T C: operations per token. u: fraction of the matrix
peak reached by our training on the measured machine. The second term is a ring all-reduce of float32 gradients without
overlap, which makes the projected speed a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.report import markdown_table, number
from benchmarks.shape import Shape
from benchmarks.training.memory_model import MemoryModel

GIGABYTE = 1e9


@dataclass(frozen=True)
class Model(Shape):
    """Size of a GPT."""

    vocabulary: int
    name: str

    @property
    def parameters(self) -> int:
        """Number of parameters with tied embeddings: 12 L C² + V C."""
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width

    @property
    def operations_per_token(self) -> int:
        """Operations per token of the forward and backward pass."""
        return 6 * self.parameters + 12 * self.layers * self.context * self.width


@dataclass(frozen=True)
class Machine:
    """Devices with their data-sheet rates."""

    name: str
    devices: int
    peak: float
    """Dense bf16 FLOP/s per device."""
    memory: float
    """Bytes per device."""
    bandwidth: float
    """Bytes/s between devices, in one direction."""


MODELS = (
    Model(6, 6, 384, 256, 65, "baby GPT"),
    Model(12, 12, 768, 1024, 50257, "GPT-2 small"),
    Model(48, 25, 1600, 1024, 50257, "GPT-2 XL"),
)
MACHINES = (
    Machine("one A100", 1, 312e12, 80 * GIGABYTE, 300 * GIGABYTE),
    Machine("one H100", 1, 989e12, 80 * GIGABYTE, 450 * GIGABYTE),
    Machine("eight H100, NVLink", 8, 989e12, 80 * GIGABYTE, 450 * GIGABYTE),
    Machine("64 H100, 400 Gbit/s each", 64, 989e12, 80 * GIGABYTE, 50 * GIGABYTE),
)
"""Rates from the vendor's data sheets; bandwidths per direction."""

LARGEST_BATCH = 512
"""Maximum number of sequences per device."""


def batch_that_fits(model: Model, machine: Machine, memory: MemoryModel) -> int:
    """Return the largest number of sequences per device (0 if none) that fits in 90 % of the device's memory."""
    weights = {"parameters": model.parameters, "bytes_per_parameter": 20, "vocabulary": model.vocabulary}
    facts = model.size | weights
    none, one = (memory.bytes(facts | {"batch_size": rows}) for rows in (0, 1))
    return max(0, min(LARGEST_BATCH, int((0.9 * machine.memory - none) / (one - none))))


def all_reduce_seconds(parameters: float, devices: int, bandwidth: float) -> float:
    """Return the time of a ring all-reduce of the gradients, which the trainer exchanges in float32."""
    return 2 * (devices - 1) / devices * 4 * parameters / bandwidth


def tokens_per_second(model: Model, machine: Machine, batch: int, utilisation: float) -> tuple[float, float]:
    """Return the tokens per second of all devices together, and the fraction of time spent on communication."""
    tokens = batch * model.context
    computing = tokens * model.operations_per_token / (utilisation * machine.peak)
    talking = all_reduce_seconds(model.parameters, machine.devices, machine.bandwidth)
    return machine.devices * tokens / (computing + talking), talking / (computing + talking)


def projection_table(utilisation: float, memory: MemoryModel) -> str:
    """Return a table of projected speeds by model and machine."""
    rows = []
    for model in MODELS:
        for machine in MACHINES:
            batch = batch_that_fits(model, machine, memory)
            cells = ("does not fit", "–", "–")
            if batch:
                rate, talking = tokens_per_second(model, machine, batch, utilisation)
                cells = (str(batch), number(rate), f"{100 * talking:.1f} %")
            rows.append((f"{model.name}, {model.parameters / 1e6:.0f}M", machine.name, *cells))
    return (
        f"Computed, not measured: u = {100 * utilisation:.1f} % (fraction of the matrix peak that the baby GPT reached"
        " above), memory by the fitted formula.\n\n"
        + markdown_table(("model", "machine", "sequences per device", "tokens/s", "all-reduce"), rows)
    )
