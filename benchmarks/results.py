"""Store the raw times of every round as JSON, and derive the figures of a benchmark from these times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

CUT = "not measured: cut off while "
"""Beginning of the status of a measurement that was stopped; what it was doing follows."""


@dataclass
class Turn:
    """One turn of one contender."""

    seconds: float
    steps: int
    units: int


@dataclass
class Row:
    """Results of one contender. Derived figures are medians over its turns."""

    name: str
    ours: bool
    operations_per_unit: float | None = None
    status: str = "measured"
    """`measured`, `skipped: reason`, `not measured: reason` (no time left), `failed: reason` or `published, …`."""
    set_up_seconds: float = 0.0
    """Time of imports, data preparation, compilation and the uncounted turn."""
    peak_memory: int = 0
    """Peak memory in bytes."""
    facts: dict[str, float] = field(default_factory=dict)
    """Numbers that describe the workload."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds from the start of the contender to each phase: building (after imports), compiling (the first step),
    warming up, waiting (for the others), measuring."""
    rounds: list[Turn] = field(default_factory=list)

    @property
    def measured(self) -> bool:
        """Whether the contender was measured for at least one round."""
        return self.status == "measured" and bool(self.rounds)

    @property
    def rates(self) -> list[float]:
        """Units per second, one value per turn."""
        return [turn.units / turn.seconds for turn in self.rounds]

    @property
    def rate(self) -> float:
        """Median units per second."""
        return median(self.rates)

    @property
    def milliseconds(self) -> float:
        """Median time of one step in milliseconds."""
        return 1000 * median(turn.seconds / turn.steps for turn in self.rounds)

    @property
    def operations(self) -> float | None:
        """Model FLOP/s, or None if operations are not counted."""
        return None if self.operations_per_unit is None else self.rate * self.operations_per_unit


@dataclass
class Result:
    """Results of one benchmark on one machine."""

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
        """Return the row of this name, or None if it was not measured."""
        return next((row for row in self.rows if row.name == name and row.measured), None)

    def fastest(self, names: Sequence[str]) -> Row | None:
        """Return the named row with the highest median rate, or None if none was measured."""
        measured = [row for name in names if (row := self.row(name))]
        return max(measured, key=lambda row: row.rate, default=None)

    def contest(self, comparison: Mapping[str, Sequence[str]]) -> tuple[Row | None, Row | None]:
        """Return our fastest row and the fastest peer of a comparison; None if none was measured."""
        return self.fastest(comparison["ours"]), self.fastest(comparison["peers"])

    @property
    def best_peak(self) -> float:
        """Matrix peak of the faster number format, in FLOP/s."""
        return max(self.peak.values())

    def save(self, path: Path) -> None:
        """Write the result as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a result written by `save`."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["rows"] = [Row(**row | {"rounds": [Turn(**turn) for turn in row["rounds"]]}) for row in values["rows"]]
        return cls(**values)
