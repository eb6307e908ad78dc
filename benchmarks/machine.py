"""Describe the machine and the package versions that are saved with every result, and measure its matrix peak."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch.nn import functional as F

from benchmarks.device import device, mean_seconds

PACKAGES = ("torch", "numpy", "sentencepiece", "transformers", "ctranslate2", "joeynmt")
"""Packages whose versions are saved with every result, if installed."""


def describe_machine() -> dict[str, str | int]:
    """Return the processor, the cores available to this process, memory in bytes, operating system, and GPU if any."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    description: dict[str, str | int] = {"processor": processor(), "cores": cores, "system": platform.system()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        description["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if torch.cuda.is_available():
        description["gpu"] = torch.cuda.get_device_name()
    return description


def processor() -> str:
    """Return the processor's name, clock rate, and the best instruction set extension relevant to bf16 speed."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    name = re.search(r"model name\s*:\s*(.+)", text)
    frequency = re.search(r"cpu MHz\s*:\s*([\d.]+)", text)
    extensions = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if re.search(rf"\b{flag}\b", text)]
    parts = [" ".join(name[1].split()) if name else platform.processor() or platform.machine()]
    if frequency:
        parts.append(f"{float(frequency[1]) / 1000:.1f} GHz")
    return ", ".join(parts + extensions[:1])


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed `PACKAGES`."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


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
