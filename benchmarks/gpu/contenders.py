"""Measure contenders with the harness: in alternating turns, each phase and each figure reported at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.contender import Contender
from benchmarks.gpu.figures import Figure
from benchmarks.gpu.stage import Measurement, Report, StageSettings
from benchmarks.harness import MeasureSettings, alternate
from benchmarks.results import Row
from data.cpu_cores import cores

ROUNDS, TURN, WARM_UP = 3, 1.0, 0.5

PATIENCE = 90.0
"""Seconds after which a contender is given up; a cold compilation takes 20 to 40 s (H200, 16 cores)."""

LEAST = 30.0
"""Time without which no contenders are started."""


def together(
    contenders: Sequence[Contender], line: Callable[[Row], Figure], settings: StageSettings, least: float = LEAST
) -> Measurement:
    """Return the measurement of contenders that are set up in parallel and then take alternating turns.

    Each turn rewrites the figure of its contender, `line(row)`; until all turns are measured, a later call measures it
    again. If another machine has measured some of the contenders, they are measured again here, beside those that are
    missing. least: time without which they are not begun.
    """
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, cores() // len(contenders)))}

    def take(wanted: Sequence[str], report: Report) -> None:
        elsewhere = {one.what for one in settings.results.figures() if one.machine != settings.machine}
        chosen = [replace(one, environment=threads) for one in contenders if one.name in {*wanted, *elsewhere}]
        full = MeasureSettings(ROUNDS, TURN, WARM_UP, at_once=len(chosen), patience=PATIENCE)
        short = MeasureSettings(ROUNDS, 0.01, 0.0, at_once=len(chosen))

        def begun(row: Row, doing: str) -> None:
            report(Figure.underway(row.name, doing, phases=dict(row.phases)))

        for row in alternate(chosen, short if settings.dry_run else full, settings.deadline, begun):
            figure = line(row) if row.rates else Figure(row.name, facts={"phases": row.phases})
            figure.facts["partial"] = len(row.rates) < ROUNDS
            if not row.measured:
                figure.status = row.status + (f"; before that {figure.figure}" if row.rates else "")
            report(figure)

    return Measurement(tuple(one.name for one in contenders), take, least)


def turns(row: Row) -> str:
    """Return the note of a row that was measured in fewer than all turns."""
    count = len(row.rates)
    return f" ({count} turn{'s' * (count > 1)})" if count < ROUNDS else ""
