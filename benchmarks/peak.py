"""Measure the peak matrix throughput. The fraction that a program reaches of it is comparable across machines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch.nn import functional as F

from benchmarks.device import device, mean_seconds

SHAPES = ((8192, 256, 1024), (8192, 1024, 256), (8192, 384, 1536), (2048, 256, 1024), (2048, 2048, 2048))
"""M x K x N of the measured products: the linear layers of small transformers, and one square product."""

LARGE = ((8192, 8192, 8192),)
"""Additional product on a GPU, which the smaller products do not saturate."""

REPEATS = 7


@dataclass
class PeakSettings:
    """Settings of `peak`."""


def peak(_: PeakSettings) -> None:
    """Print the peak matrix throughput of this machine as one line of JSON: FLOP/s by number format."""
    shapes = SHAPES + (LARGE if torch.cuda.is_available() else ())
    with torch.no_grad():
        rates = {
            name: max(product_rate(*shape, dtype) for shape in shapes)
            for name, dtype in (("bf16", torch.bfloat16), ("float32", torch.float32))
        }
    print(json.dumps(rates))


def product_rate(rows: int, inner: int, columns: int, dtype: torch.dtype) -> float:
    """Return the FLOP/s of one product (2 M K N / time), by the median time of `REPEATS` calls after one uncounted
    call."""
    x = torch.randn(rows, inner, device=device()).to(dtype)
    weight = torch.randn(columns, inner, device=device()).to(dtype)
    times = [mean_seconds(partial(F.linear, x, weight), 1) for _ in range(REPEATS + 1)]
    return 2 * rows * inner * columns / median(times[1:])
