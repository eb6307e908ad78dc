"""Figures of the GPU benchmark: one JSON line each, on disk as soon as it is measured, and their table."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender
from benchmarks.harness import MeasureSettings, alternate
from benchmarks.results import Row, markdown_table

MEASURED = "measured"
NO_TIME = "not measured: no time left"
ROUNDS = 3


@dataclass
class Inputs:
    """Settings of the GPU benchmark that every stage reads."""

    dry_run: bool = False
    """Use tiny sizes, also without a GPU: checks that everything runs, measures nothing."""

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's rows are skipped."""

    text: str = ""
    """A text file (tinyshakespeare); if empty, training on it is skipped."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; if empty, training on it is skipped."""


@dataclass
class Figure:
    """One line of `gpu.jsonl`, and one row of the table."""

    what: str
    """Description of the measurement, as shown in the table."""

    figure: str = "–"
    """Measured value with its unit."""

    beside: str = ""
    """Comparison value, such as the MFU; `comparison` adds the ratio to a rival."""

    status: str = MEASURED
    """`measured`, `skipped: reason` (cannot run here), `not measured: reason` or `failed: reason`."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Raw numbers. `rate`, `memory`: compared with those of the figure named first in `rival`, a program named
    second."""

    stage: str = ""
    machine: str = ""
    """GPU and torch version; figures of different machines are not compared."""

    at: float = field(default_factory=time.time)
    """Unix time."""

    @property
    def measured(self) -> bool:
        """Whether there is a value."""
        return self.status == MEASURED

    @property
    def result(self) -> str:
        """The value, or why there is none."""
        return self.figure if self.measured else self.status

    @property
    def failed(self) -> bool:
        """Whether the measurement failed."""
        return self.status.startswith("failed")


def attempt(name: str, measure: Callable[[], Figure]) -> Figure:
    """Return the figure that `measure` returns, or a failed one with the exception that it raises."""
    try:
        return measure()
    except Exception as error:
        traceback.print_exc()
        return Figure(name, status=f"failed: {' '.join(f'{type(error).__name__}: {error}'.split())[:160]}")


def compete(contenders: Sequence[Contender], figure: Callable[[Row], Figure], dry_run: bool) -> Iterator[Figure]:
    """Set up contenders in parallel and measure them in alternating turns; yield the figure of a contender after each
    of its turns."""
    count = len(contenders)
    full = MeasureSettings(rounds=ROUNDS, seconds=1.0, warm_up=0.5, at_once=count, patience=90.0)
    short = MeasureSettings(rounds=1, seconds=0.01, warm_up=0.0, at_once=count)
    for row in alternate(contenders, short if dry_run else full):
        yield figure(row) if row.measured else Figure(row.name, status=row.status)


def append(folder: Path, figure: Figure) -> None:
    """Append a figure to `gpu.jsonl`."""
    with (folder / "gpu.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(asdict(figure), ensure_ascii=False)}\n")


def read_figures(folder: Path) -> list[Figure]:
    """Return the latest figure of every measurement; one that was not measured never replaces one that was."""
    path = folder / "gpu.jsonl"
    latest: dict[tuple[str, str], Figure] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        figure = Figure(**json.loads(line))
        key = figure.stage, figure.what
        if key not in latest or not latest[key].measured or not figure.status.startswith("not measured"):
            latest[key] = figure
    return list(latest.values())


def comparison(figure: Figure, figures: Sequence[Figure]) -> str:
    """Return the last cell of a row: `beside`, and the ratio to the rival measured on the same machine."""
    parts = [figure.beside] if figure.beside else []
    what, program = figure.facts.get("rival", ("", ""))
    for rival in figures:
        if figure.measured and rival.measured and (rival.what, rival.machine) == (what, figure.machine):
            rate, memory = (figure.facts[key] / rival.facts[key] for key in ("rate", "memory"))
            parts.append(f"{rate:.2f} x {program}, {memory:.2f} x its memory")
    return ", ".join(parts)


def tables(figures: Sequence[Figure], titles: dict[str, str]) -> str:
    """Return a Markdown table for each stage, under its title, and the days and machines of the figures."""
    parts = []
    for stage, title in titles.items():
        rows = [
            (figure.what, figure.result.replace("|", "/"), comparison(figure, figures))
            for figure in figures
            if figure.stage == stage
        ]
        if rows:
            parts += [f"### {title}", markdown_table(("measurement", "result", "comparison"), rows)]
    days = {time.strftime("%Y-%m-%d", time.localtime(figure.at)) for figure in figures}
    return "\n\n".join([*parts, f"{'; '.join([*sorted(days), *sorted({figure.machine for figure in figures})])}."])
