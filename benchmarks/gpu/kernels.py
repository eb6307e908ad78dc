"""Where the time of a training step goes, by the profiler: every kernel by name, and how much of the step the GPU is at
work.

A step whose kernels take less time than the step is waiting for launches, for data, or for the host to read something
back.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.figures import Figure, Sheet, StageSettings
from benchmarks.gpu.timing import wait
from benchmarks.gpu.training import TINY, TRAINED, own_settings
from benchmarks.training.projection import Model

WARM_UP, STEPS = 5, 5

SHOWN = 8
"""Kernels in the table; the file has all of them."""

ATTENTION = ("fmha", "flash", "attention", "sdpa")
"""What the names of fused attention kernels have in them: cuDNN's, flash's and those that go by their function."""


def kernels(settings: StageSettings) -> None:
    """The kernels of a training step by name, time and share: 124M, then 10.7M."""
    sheet = Sheet(settings.to)
    deadline = time.monotonic() + settings.seconds
    sizes = [TINY[0].model] if settings.dry_run else [TRAINED[0].model, TRAINED[-1].model]
    batches = {"124M": 64, "10.7M": 64, "tiny": 2}
    for number, model in enumerate(sizes):
        # A second model takes about as long as the first one.
        if number and time.monotonic() + (settings.seconds - (deadline - time.monotonic())) > deadline:
            sheet.add(Figure(f"{model.name}: kernels of a step", status="cut: no time left"))
        else:
            sheet.add(*of_model(model, batches[model.name], compiled=not settings.dry_run))


def of_model(model: Model, batch: int, compiled: bool) -> list[Figure]:
    """A line for the whole step, one for its attention kernels, and one for each of the longest."""
    from benchmarks.ours import training

    step = training(own_settings(model, batch, compiled), model.vocabulary)
    gpu = torch.cuda.is_available()
    for _ in range(WARM_UP):
        step()
    wait()
    started = time.perf_counter()
    for _ in range(STEPS):
        step()
    wait()
    milliseconds = 1000 * (time.perf_counter() - started) / STEPS
    with profile(activities=[ProfilerActivity.CUDA if gpu else ProfilerActivity.CPU]) as running:
        for _ in range(STEPS):
            step()
        wait()
    found = rows(running, DeviceType.CUDA if gpu else DeviceType.CPU)
    return described(f"{model.name}, batch {batch}", milliseconds, found)


def rows(running: profile, kind: DeviceType) -> list[dict[str, Any]]:
    """Every kernel with its calls and milliseconds per step, the longest first. (Without a GPU: every operator.)"""
    events = [event for event in running.key_averages() if event.device_type == kind]
    total = "self_cpu_time_total" if kind == DeviceType.CPU else "self_device_time_total"
    found = [
        {"kernel": event.key, "calls": event.count / STEPS, "milliseconds": getattr(event, total) / 1000 / STEPS}
        for event in events
    ]
    return sorted(found, key=lambda one: one["milliseconds"], reverse=True)


def described(name: str, milliseconds: float, found: list[dict[str, Any]]) -> list[Figure]:
    """As lines of the table. `milliseconds`: of a step that was not profiled."""
    busy = sum(one["milliseconds"] for one in found)
    launches = sum(one["calls"] for one in found)
    whole = Figure(
        f"{name}: a step",
        f"{milliseconds:.3g} ms",
        f"kernels {busy:.3g} ms ({100 * busy / milliseconds:.0f} %), {launches:.0f} launches",
        facts={"milliseconds": milliseconds, "busy": busy, "launches": launches, "kernels": found},
    )
    fused = [one for one in found if any(word in one["kernel"].lower() for word in ATTENTION)]
    attention = Figure(
        f"{name}: attention kernels",
        f"{sum(one['milliseconds'] for one in fused):.3g} ms",
        "; ".join(clipped(one["kernel"]) for one in fused[:3]) or "none by name",
    )
    lines = [
        Figure(
            f"{name}: {clipped(one['kernel'])}",
            f"{one['milliseconds']:.3g} ms",
            f"{100 * one['milliseconds'] / busy:.1f} %, {one['calls']:.0f} calls",
        )
        for one in found[:SHOWN]
    ]
    return [whole, attention, *lines]


def clipped(name: str) -> str:
    """A kernel's name in 60 characters that a table can hold."""
    return name.replace("|", "/")[:60]
