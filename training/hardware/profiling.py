"""Profile a few early training steps with torch's profiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from training.run_folder.log import RunLog


@contextmanager
def profiler(run: Path, log: RunLog, device: torch.device) -> Iterator[profile]:
    """Profile steps 5 to 10; log a table of the slowest operators and write a Perfetto trace to `run/trace.json`."""

    def report(finished: profile) -> None:
        with log.attempt("trace.json"):
            finished.export_chrome_trace(str(run / "trace.json"))
        order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
        log.line(finished.key_averages().table(sort_by=order, row_limit=20))

    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    steps = schedule(wait=4, warmup=1, active=5, repeat=1)
    with profile(activities=activities, schedule=steps, on_trace_ready=report) as running:
        yield running
