"""Measure the peak matrix throughput. The fraction that a program reaches of it is comparable across machines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch.nn import functional as F

from benchmarks.device import device, mean_seconds
from benchmarks.report import markdown_table

SHAPES = ((8192, 256, 1024), (8192, 1024, 256), (8192, 384, 1536), (2048, 256, 1024), (2048, 2048, 2048))
"""M x K x N of the measured products: the linear layers of small transformers, and one square product."""

LARGE = ((8192, 8192, 8192),)
"""Additional product on a GPU, which the smaller products do not saturate."""

REPEATS = 7


@dataclass
class PeakSettings:
    """Settings of `peak`."""

    json: bool = False
    """Print one line of JSON instead of a table: {"bf16": FLOP/s, "float32": FLOP/s}."""


def measure_peak() -> dict[str, dict[str, float]]:
    """Return FLOP/s (2 M K N / median time of `F.linear`) by number format and shape; the maximum is the peak."""
    formats = {"bf16": torch.bfloat16, "float32": torch.float32}
    shapes = SHAPES + (LARGE if torch.cuda.is_available() else ())
    return {
        name: {" x ".join(map(str, shape)): product_rate(*shape, dtype) for shape in shapes}
        for name, dtype in formats.items()
    }


def product_rate(rows: int, inner: int, columns: int, dtype: torch.dtype) -> float:
    """Return the FLOP/s of one product, from the median time of `REPEATS` calls after one uncounted call."""
    x = torch.randn(rows, inner, device=device()).to(dtype)
    weight = torch.randn(columns, inner, device=device()).to(dtype)
    times = [mean_seconds(partial(F.linear, x, weight), 1) for _ in range(REPEATS + 1)]
    return 2 * rows * inner * columns / median(times[1:])


def peak(settings: PeakSettings) -> None:
    """Measure the peak matrix throughput of this machine."""
    with torch.no_grad():
        found = measure_peak()
    if settings.json:
        print(json.dumps({name: max(rates.values()) for name, rates in found.items()}))
        return
    shapes = next(iter(found.values()))
    rows = [(shape, *(f"{rates[shape] / 1e12:.2f}" for rates in found.values())) for shape in shapes]
    print(markdown_table(["M x K x N", *(f"{name}, TFLOP/s" for name in found)], rows))
