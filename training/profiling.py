"""Where the time of a step goes: torch's profiler over a few early steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from training.run_log import RunLog


@contextmanager
def profiler(run: Path, log: RunLog) -> Iterator[profile]:
    """Profile steps 5 to 10; a table of the slowest operators goes to the log, a trace for Perfetto to `run/trace.json`."""

    def report(finished: profile) -> None:
        finished.export_chrome_trace(str(run / "trace.json"))
        order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        log.line(finished.key_averages().table(sort_by=order, row_limit=20))

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    with profile(
        activities=activities, schedule=schedule(wait=4, warmup=1, active=5, repeat=1), on_trace_ready=report
    ) as running:
        yield running
