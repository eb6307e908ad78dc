"""Results of a benchmark: speed of each turn while it is measured; median, minimum and maximum on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any


@dataclass
class Row:
    """Results of one contender. Derived figures are medians over its turns."""

    name: str
    ours: bool = False
    operations_per_unit: float | None = None
    status: str = "measured"
    """`measured`, `skipped: reason`, `not measured: reason` or `failed: reason`."""
    peak_memory: int = 0
    """Peak memory in bytes."""
    rates: list[float] = field(default_factory=list)
    """Units per second of each turn; on disk minimum, median and maximum, which have the same median."""
    step_milliseconds: list[float] = field(default_factory=list)
    """Time of a step in each turn; on disk the median."""

    @property
    def measured(self) -> bool:
        """Whether the contender was measured for at least one turn."""
        return self.status == "measured" and bool(self.rates)

    @property
    def rate(self) -> float:
        """Median units per second."""
        return median(self.rates)

    @property
    def milliseconds(self) -> float:
        """Median time of one step in milliseconds."""
        return median(self.step_milliseconds)

    @property
    def operations(self) -> float | None:
        """Model FLOP/s, or None if operations are not counted."""
        return None if self.operations_per_unit is None else self.rate * self.operations_per_unit

    def add(self, seconds: float, steps: int, units: int) -> None:
        """Add a turn."""
        self.rates.append(units / seconds)
        self.step_milliseconds.append(1000 * seconds / steps)

    def summary(self) -> dict[str, Any]:
        """Return the values that the tables show, for the JSON file."""
        rates = (min(self.rates), self.rate, max(self.rates)) if self.rates else ()
        times = (self.milliseconds,) if self.rates else ()
        values = asdict(replace(self, rates=[*map(rounded, rates)], step_milliseconds=[*map(rounded, times)]))
        return {key: value for key, value in values.items() if value}


def rounded(value: float) -> float:
    """Round to six significant digits."""
    return float(f"{value:.6g}")


@dataclass
class Result:
    """Results of one benchmark on one machine."""

    benchmark: str
    title: str
    unit: str
    reference: str
    rounds: int
    date: str
    machine: dict[str, str | int]
    versions: dict[str, str]
    peak: dict[str, float]
    """Measured matrix peak in FLOP/s, by number format."""
    comparisons: list[dict[str, Any]]
    """`benchmarks.contender.Comparison` as dictionaries."""
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
        """Write the summaries of all rows as JSON, one line for each row and each comparison."""
        values = asdict(self) | {"rows": [row.summary() for row in self.rows]}
        lines = []
        for key, value in values.items():
            parts = [f"  {dumped(part)}" for part in value] if isinstance(value, list) else []
            text = "[\n" + ",\n".join(parts) + "\n ]" if parts else dumped(value)
            lines.append(f" {dumped(key)}: {text}")
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a result written by `save`."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["rows"] = [Row(**row) for row in values["rows"]]
        return cls(**values)


def dumped(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def markdown_table(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def number(value: float) -> str:
    """Format a number with three significant digits: 12,345 becomes 12,300, 3.14159 becomes 3.14."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if abs(float(digits)) >= 100 else f"{float(digits):g}"
