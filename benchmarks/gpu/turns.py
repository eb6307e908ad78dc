"""Run the harness with settings that fit the time budget of a stage."""

from __future__ import annotations

import tempfile

from benchmarks.contender import Benchmark
from benchmarks.gpu.figures import StageSettings
from benchmarks.harness import MeasureSettings, measure
from benchmarks.results import Result
from training.hardware.device import PEAK_FLOPS

PEAK = PEAK_FLOPS["H200"]
"""Dense bf16 FLOP/s of one H100 or H200 (data sheet): the denominator of published MFU figures."""

ROUNDS, TURN, WARM_UP, AT_ONCE = 3, 1.0, 0.5, 4
"""`AT_ONCE` contenders fit in an H200's memory together (nanoGPT at 64 x 1024: about 50 GB)."""

ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}
"""Environment of every contender: each gets few compiler threads, because several compile in parallel."""


def measured(benchmark: Benchmark, settings: StageSettings) -> Result:
    """Run `measure` within the stage's time limit; a dry run takes each step once."""
    with tempfile.TemporaryDirectory() as folder:
        few = MeasureSettings(1, 0.01, 0.0, to=folder)
        full = MeasureSettings(ROUNDS, TURN, WARM_UP, to=folder, at_once=AT_ONCE)
        chosen = few if settings.dry_run else full
        chosen.limit = settings.seconds
        return measure(benchmark, chosen, {"bf16": settings.peak or PEAK})
