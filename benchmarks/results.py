"""Results of a benchmark: the raw times of every round as JSON, and the figures derived from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any


@dataclass
class Turn:
    """One turn of one contender."""

    seconds: float
    steps: int
    units: int


@dataclass
class Row:
    """One contender. Everything derived is a median over its turns."""

    name: str
    ours: bool
    operations_per_unit: float | None = None
    status: str = "measured"
    """`measured`, or `skipped: reason`, `cut: reason` (no time was left) or `failed: reason`."""
    set_up_seconds: float = 0.0
    """Imports, data, compilation and the turn that does not count."""
    peak_memory: int = 0
    """Bytes."""
    facts: dict[str, float] = field(default_factory=dict)
    """Numbers that describe the work."""
    rounds: list[Turn] = field(default_factory=list)

    @property
    def measured(self) -> bool:
        """Whether there are times."""
        return self.status == "measured" and bool(self.rounds)

    @property
    def rates(self) -> list[float]:
        """Units per second of each turn."""
        return [turn.units / turn.seconds for turn in self.rounds]

    @property
    def rate(self) -> float:
        """Units per second."""
        return median(self.rates)

    @property
    def milliseconds(self) -> float:
        """Of one step."""
        return 1000 * median(turn.seconds / turn.steps for turn in self.rounds)

    @property
    def operations(self) -> float | None:
        """Model FLOP/s, where operations are counted."""
        return None if self.operations_per_unit is None else self.rate * self.operations_per_unit


@dataclass
class Result:
    """One benchmark on one machine."""

    benchmark: str
    title: str
    unit: str
    reference: str
    comparisons: list[dict[str, Any]]
    """`benchmarks.contender.Comparison` as dictionaries."""
    date: str
    machine: dict[str, str | int]
    versions: dict[str, str]
    peak: dict[str, float]
    """Measured matrix peak in FLOP/s, by number format."""
    rows: list[Row]

    def row(self, name: str) -> Row | None:
        """The row of that name, if it was measured."""
        return next((row for row in self.rows if row.name == name and row.measured), None)

    def fastest(self, names: Sequence[str]) -> Row | None:
        """The fastest of the named rows by its median, if any was measured."""
        measured = [row for name in names if (row := self.row(name))]
        return max(measured, key=lambda row: row.rate, default=None)

    @property
    def best_peak(self) -> float:
        """The peak of the faster number format."""
        return max(self.peak.values())

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a file that `save` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["rows"] = [Row(**row | {"rounds": [Turn(**turn) for turn in row["rounds"]]}) for row in values["rows"]]
        return cls(**values)
