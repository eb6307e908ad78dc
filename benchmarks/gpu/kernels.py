"""Profile the kernels of a training step, and the fraction of the step in which the GPU is busy.

If the kernels take less time than the step, the GPU waits for launches, for data, or for synchronisation with the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.device import mean_seconds
from benchmarks.gpu.figures import Figure
from benchmarks.gpu.stage import Measurement, Report, StageSettings, stage
from benchmarks.gpu.training import BABY, GPT2, TINY, Model, own_settings

WARM_UP, STEPS = 5, 5

SHOWN = 8
"""Number of kernels in the table; the JSON file lists all of them."""

ATTENTION = ("fmha", "flash", "attention", "sdpa")
"""Substrings of the names of fused attention kernels: cuDNN, flash, and generic names."""


SECONDS = 15.0
"""Time of a model whose code is in the compiler's cache."""


@stage
def kernels(settings: StageSettings) -> Iterator[Measurement]:
    """Measure the kernels of a training step by name, time and percentage: 124M, then 10.7M."""
    models, batch = ([TINY], 2) if settings.dry_run else ([GPT2, BABY], 64)
    for model in models:
        name = f"{model.name}, batch {batch}: a step"
        yield Measurement((name,), partial(of_model, model, batch, not settings.dry_run), SECONDS)


def of_model(model: Model, batch: int, compiled: bool, _: Sequence[str], report: Report) -> None:
    """Report a row for the attention kernels, for each of the longest kernels, and for the whole step."""
    from benchmarks.ours import training

    step = training(own_settings(model, batch, compiled), model.vocabulary)
    gpu = torch.cuda.is_available()
    mean_seconds(step, WARM_UP)
    milliseconds = 1000 * mean_seconds(step, STEPS)
    with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as running:
        mean_seconds(step, STEPS)
    name, kernels_by_time = f"{model.name}, batch {batch}", rows(running, DeviceType.CUDA if gpu else DeviceType.CPU)
    busy = sum(kernel["milliseconds"] for kernel in kernels_by_time)
    launches = sum(kernel["calls"] for kernel in kernels_by_time)
    fused = [kernel for kernel in kernels_by_time if any(word in kernel["kernel"].lower() for word in ATTENTION)]
    took = sum(one["milliseconds"] for one in fused)
    names = "; ".join(clipped(one["kernel"]) for one in fused[:3]) or "none recognised by name"
    report(Figure(f"{name}: attention kernels", f"{took:.3g} ms", names))
    for place, one in enumerate(kernels_by_time[:SHOWN], 1):  # of equal beginnings: no names of rows
        share = f"{100 * one['milliseconds'] / busy:.1f} %, {one['calls']:.0f} calls: {clipped(one['kernel'])}"
        report(Figure(f"{name}: kernel {place} by time", f"{one['milliseconds']:.3g} ms", share))
    beside = f"kernels {busy:.3g} ms ({100 * busy / milliseconds:.0f} %), {launches:.0f} launches"
    facts = {"milliseconds": milliseconds, "busy": busy, "launches": launches, "kernels": kernels_by_time}
    report(Figure(f"{name}: a step", f"{milliseconds:.3g} ms", beside, facts=facts))


def rows(running: profile, kind: DeviceType) -> list[dict[str, Any]]:
    """Return every kernel (without a GPU: operator) with its calls and milliseconds per step, the longest first."""
    total = "self_cpu_time_total" if kind == DeviceType.CPU else "self_device_time_total"
    operators = [
        {"kernel": event.key, "calls": event.count / STEPS, "milliseconds": getattr(event, total) / 1000 / STEPS}
        for event in running.key_averages()
        if event.device_type == kind
    ]
    return sorted(operators, key=lambda row: row["milliseconds"], reverse=True)


def clipped(name: str) -> str:
    """Return a kernel's name, truncated to 120 characters, without the table's separator."""
    return name.replace("|", "/")[:120]
