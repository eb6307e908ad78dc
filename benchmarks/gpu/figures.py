"""Store the results of a stage: table rows with their raw numbers, written to disk one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

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


@dataclass
class StageSettings:
    """Settings of every stage."""

    to: str = "stage.json"
    """Output file."""

    seconds: float = 600.0
    """Time limit in seconds; measurements that do not fit are reported as not measured."""

    dry_run: bool = False
    """Use tiny sizes, on a machine without a GPU: checks that everything runs, measures nothing."""

    peak: float = 0.0
    """Measured matrix peak of this machine in FLOP/s; 0 if unknown."""

    nanogpt: str = ""
    """A nanoGPT checkout; if empty, nanoGPT's rows are skipped."""

    text: str = ""
    """A text file (tinyshakespeare); if empty, training on it is skipped."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; if empty, training on it is skipped."""


@dataclass
class Stage:
    """Figures of one stage."""

    name: str
    figures: list[Figure]
    seconds: float = 0.0
    """Duration in seconds."""

    @property
    def failures(self) -> list[Figure]:
        """Figures with the status `failed`."""
        return [figure for figure in self.figures if figure.status.startswith("failed")]

    @property
    def measured(self) -> bool:
        """Whether any figure was measured."""
        return any(figure.status == MEASURED for figure in self.figures)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Stage:
        """Create a stage from its `asdict` values, read from JSON."""
        return cls(values["name"], [Figure(**one) for one in values["figures"]], values["seconds"])


class Sheet:
    """Figures of the running stage, written to disk one by one, so that an interrupted stage keeps its figures."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.figures: list[Figure] = []
        self._write()

    def add(self, *figures: Figure) -> None:
        """Add figures, write all figures to disk, and print the new ones for the log."""
        self.figures += figures
        self._write()
        for figure in figures:
            print(table_line("", figure), flush=True)

    def _write(self) -> None:
        self.path.write_text(json.dumps([asdict(one) for one in self.figures], indent=1) + "\n", encoding="utf-8")


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
    lines = ["| stage | measurement | result | comparison |", "|---|---|---|---|"]
    lines += [table_line(stage.name, figure) for stage in stages for figure in stage.figures]
    return "\n".join(lines)


def table_line(stage: str, figure: Figure) -> str:
    """Return one Markdown row; the row of a figure that was not measured shows the status instead of the value."""
    cells = (figure.figure, figure.beside) if figure.status == MEASURED else (figure.status.replace("|", "/"), "")
    return f"| {stage} | {figure.what} | {cells[0]} | {cells[1]} |"
