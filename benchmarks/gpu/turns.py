"""Contenders of a stage: the harness with the settings that fit a stage's time."""

from __future__ import annotations

import tempfile

from benchmarks.contender import Benchmark
from benchmarks.gpu.figures import StageSettings
from benchmarks.harness import MeasureSettings, measure
from benchmarks.results import Result
from training.hardware.device import PEAK_FLOPS

PEAK = PEAK_FLOPS["H200"]
"""Dense bf16 FLOP/s of one H100 or H200, by the data sheet: what published utilisations are shares of."""

ROUNDS, TURN, WARM_UP, AT_ONCE = 3, 1.0, 0.5, 4
"""The number of contenders set up at the same time fits an H200's memory (nanoGPT at 64 x 1024: some 50 GB)."""

ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}
"""Of every contender: several compile at the same time, so that each gets few threads."""


def measured(benchmark: Benchmark, settings: StageSettings) -> Result:
    """The result of `measure` within the stage's time; a dry run takes each step once."""
    with tempfile.TemporaryDirectory() as folder:
        few = MeasureSettings(1, 0.01, 0.0, to=folder)
        full = MeasureSettings(ROUNDS, TURN, WARM_UP, to=folder, at_once=AT_ONCE)
        chosen = few if settings.dry_run else full
        chosen.limit = settings.seconds
        return measure(benchmark, chosen, {"bf16": settings.peak or PEAK})
