"""The results of a stage: rows of one table and the numbers behind them, written to disk as they come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MEASURED = "measured"


@dataclass
class Figure:
    """One line of the table."""

    what: str
    """What was measured, as the table shows it."""

    figure: str = "–"
    """The value with its unit."""

    beside: str = ""
    """Its relation to something else: a share of a peak, a ratio to a peer."""

    status: str = MEASURED
    """`measured`, or `skipped: reason` (cannot take part here), `cut: reason` (no time was left), `failed: reason`."""

    facts: dict[str, Any] = field(default_factory=dict)
    """The raw numbers, for documents and formulas."""


@dataclass
class StageSettings:
    """Settings of every stage."""

    to: str = "stage.json"
    """File of the figures."""

    seconds: float = 600.0
    """Time for the stage; what does not fit is reported as cut."""

    dry_run: bool = False
    """Tiny sizes, on a machine without a GPU: checks that everything runs, measures nothing."""

    peak: float = 0.0
    """The measured matrix peak of this machine in FLOP/s; 0 where it is not known."""

    nanogpt: str = ""
    """A checkout of nanoGPT; without it its rows are skipped."""

    text: str = ""
    """A text file (tinyshakespeare); without it nothing is trained on it."""

    pairs: str = ""
    """A folder with train.tsv, valid.tsv and test.tsv; without it nothing is trained on it."""


@dataclass
class Stage:
    """The figures of one stage."""

    name: str
    figures: list[Figure]
    seconds: float = 0.0
    """How long it took."""

    @property
    def failures(self) -> list[Figure]:
        """Figures that should have been measured."""
        return [figure for figure in self.figures if figure.status.startswith("failed")]

    @property
    def measured(self) -> bool:
        """Whether there is a figure in it."""
        return any(figure.status == MEASURED for figure in self.figures)

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> Stage:
        """From `asdict`, read back from JSON."""
        return cls(values["name"], [Figure(**one) for one in values["figures"]], values["seconds"])


class Sheet:
    """The figures of the running stage; each is written to disk at once, so that a stage that is stopped keeps them."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.figures: list[Figure] = []
        self._write()

    def add(self, *figures: Figure) -> None:
        """Keep figures, and print them for the log."""
        self.figures += figures
        self._write()
        for figure in figures:
            print(table_line("", figure), flush=True)

    def _write(self) -> None:
        self.path.write_text(json.dumps([asdict(one) for one in self.figures], indent=1) + "\n", encoding="utf-8")


def read_figures(path: Path) -> list[Figure]:
    """The figures that a stage has written so far; none where the file is missing or damaged."""
    try:
        return [Figure(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError):  # the file is missing, or was being written when the stage was stopped
        return []


def largest(stages: Sequence[Stage], fact: str) -> float:
    """The largest of a fact in all figures, such as `flops` or `bandwidth`; 0 where none has it."""
    return max((figure.facts.get(fact, 0.0) for stage in stages for figure in stage.figures), default=0.0)


def table(stages: Sequence[Stage]) -> str:
    """Every line of every stage, as one Markdown table."""
    lines = ["| stage | what | figure | beside |", "|---|---|---|---|"]
    lines += [table_line(stage.name, figure) for stage in stages for figure in stage.figures]
    return "\n".join(lines)


def table_line(stage: str, figure: Figure) -> str:
    """One line of Markdown; a figure that was not measured shows its status in the place of its value."""
    cells = (figure.figure, figure.beside) if figure.status == MEASURED else (figure.status.replace("|", "/"), "")
    return f"| {stage} | {figure.what} | {cells[0]} | {cells[1]} |"
