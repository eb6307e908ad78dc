"""Store the results of a stage: table rows with their raw numbers, written to disk one by one."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import markdown_table

MEASURED = "measured"


@dataclass
class Figure:
    """One row of the table."""

    what: str
    """Description of the measurement, as shown in the table."""

    figure: str = "–"
    """Measured value with its unit."""

    beside: str = ""
    """Comparison value: a percentage of a peak, or a ratio to a peer."""

    status: str = MEASURED
    """`measured`, `skipped: reason` (cannot run here), `not measured: reason` (no time left), or `failed: reason`."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Raw numbers, for documents and formulas."""

    @property
    def cells(self) -> tuple[str, str, str]:
        """Cells of the row; a figure that was not measured shows the status instead of the value."""
        if self.status == MEASURED:
            return self.what, self.figure, self.beside
        return self.what, self.status.replace("|", "/"), ""


@dataclass
class Inputs:
    """Settings common to the command `gpu` and its stages."""

    dry_run: bool = False
    """Use tiny sizes, also without a GPU: checks that everything runs, measures nothing."""

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's rows are skipped."""

    text: str = ""
    """A text file (tinyshakespeare); if empty, training on it is skipped."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; if empty, training on it is skipped."""


@dataclass
class StageSettings(Inputs):
    """Settings of every stage."""

    to: str = "stage.json"
    """Output file."""

    seconds: float = 600.0
    """Time limit in seconds; measurements that do not fit are reported as not measured."""

    peak: float = 0.0
    """Measured matrix peak of this machine in FLOP/s; 0 if unknown."""


@dataclass
class Stage:
    """Figures of one stage."""

    name: str
    figures: list[Figure]
    seconds: float = 0.0
    """Duration in seconds."""

    @property
    def failures(self) -> list[Figure]:
        """Return the measurements whose status is `failed`."""
        return [figure for figure in self.figures if figure.status.startswith("failed")]

    @property
    def measured(self) -> bool:
        """Whether any figure was measured."""
        return any(figure.status == MEASURED for figure in self.figures)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Stage:
        """Create a stage from its `asdict` values, read from JSON."""
        return cls(values["name"], [Figure(**one) for one in values["figures"]], values["seconds"])


def stage(measure: Callable[[StageSettings], Iterable[Figure]]) -> Callable[[StageSettings], None]:
    """Decorate a function that yields figures: after each of them, print it for the log and write all figures so far to
    `settings.to`, so that an interrupted stage keeps its figures."""

    @functools.wraps(measure)
    def run(settings: StageSettings) -> None:
        figures = []
        path = Path(settings.to)
        path.write_text(
            "[]\n", encoding="utf-8"
        )  # a stage that fails at once must not leave the figures of another run
        for figure in measure(settings):
            figures.append(asdict(figure))
            path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            print(*figure.cells, sep=" | ", flush=True)

    return run


def read_figures(path: Path) -> list[Figure]:
    """Read the figures written by a stage; return no figures if the file is missing or truncated."""
    try:
        return [Figure(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError):  # the file is missing, or the stage was stopped while writing it
        return []


def largest(stages: Sequence[Stage], fact: str) -> float:
    """Return the largest value of a fact, such as `flops` or `bandwidth`, over all figures; 0 if no figure has it."""
    return max((figure.facts.get(fact, 0.0) for stage in stages for figure in stage.figures), default=0.0)


def table(stages: Sequence[Stage]) -> str:
    """Return all rows of all stages as one Markdown table."""
    rows = [(stage.name, *figure.cells) for stage in stages for figure in stage.figures]
    return markdown_table(("stage", "measurement", "result", "comparison"), rows)
