"""Store every figure on disk the moment it exists, one JSON line each, and make the table from all lines."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.report import markdown_table
from benchmarks.results import CUT
from configs.whole_file import write_whole

MEASURED = "measured"
COMPLETE, INCOMPLETE = "complete", "incomplete"
NO_TIME = "not measured: no time left"
WHOLE = "the whole stage"
"""Name of the line that each call writes about a stage itself."""

STAGES = {
    "text": "One minute of training on Shakespeare",
    "gradients": "Gradients of compiled code",
    "tests": "Tests",
    "training": "Training steps",
    "machine": "The machine",
    "attention": "Attention, forward/backward",
    "decoding": "Decoding",
    "maps": "Recording attention maps",
    "kernels": "Kernels of a step",
    "sizes": "Training steps: other sizes and batches",
    "translation": "A translator",
}
"""Titles of the stages, the most important stage first."""

ATTEMPTS = 2
"""Number of failures after which a measurement is not repeated."""


@dataclass
class Figure:
    """One line of `gpu.jsonl`, and one row of the table."""

    what: str
    """Description of the measurement, as shown in the table."""

    figure: str = "–"
    """Measured value with its unit."""

    beside: str = ""
    """Comparison value, such as the MFU; `comparison` adds those that depend on other figures."""

    status: str = MEASURED
    """`measured`, `skipped: reason` (cannot run here), `not measured: reason` (no time left, or cut off while …),
    `failed: reason`; of a whole stage also `complete` or `incomplete`."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Raw numbers, for documents and formulas. `flops`, `bandwidth`: rates of this machine. `operations`: FLOP/s, shown
    as a percentage of the largest `flops`. `rate`, `memory`: compared with the fastest figure whose name begins with
    `rivals`. `file`: of a test."""

    stage: str = ""
    machine: str = ""
    """GPU and torch version; figures of different machines are not compared."""

    at: float = 0.0
    """Unix time."""

    dry_run: bool = False

    @classmethod
    def underway(cls, what: str, doing: str, **facts: Any) -> Figure:
        """Return the line of a measurement in progress. If nothing follows, it says what the measurement was doing when
        it was cut off."""
        return cls(what, status=CUT + doing, facts=facts)

    @property
    def measured(self) -> bool:
        """Whether the figure was measured."""
        return self.status == MEASURED

    @property
    def failed(self) -> bool:
        """Whether the measurement failed."""
        return self.status.startswith("failed")

    @property
    def outcome(self) -> str:
        """Outcome of a test: `passed`, `failed`, `skipped` or `not measured`."""
        return "passed" if self.measured else self.status.partition(":")[0]

    @property
    def weight(self) -> int:
        """A line replaces an earlier one of the same name, unless its weight is smaller."""
        return 2 if self.measured or self.failed else 0 if self.status == NO_TIME else 1

    @property
    def cells(self) -> tuple[str, str, str]:
        """Cells of the row; a figure that was not measured shows the status instead of the value."""
        if self.measured:
            return self.what, self.figure, self.beside
        return self.what, self.status.replace("|", "/"), ""


class Results:
    """The figures of a folder: `gpu.jsonl`, to which every call and every stage appends, and `gpu.md`, their table."""

    def __init__(self, folder: Path, machine: str = "", dry_run: bool = False) -> None:
        """machine, dry_run: of the figures to be added."""
        self.folder, self.machine, self.dry_run = folder, machine, dry_run
        self.path = folder / "gpu.jsonl"
        self.lock = threading.Lock()

    def add(self, stage: str, figure: Figure) -> None:
        """Append a figure; it is on disk when this method returns."""
        line = replace(figure, stage=stage, machine=self.machine, at=time.time(), dry_run=self.dry_run)
        with self.lock:
            append(self.path, json.dumps(asdict(line), ensure_ascii=False))

    def write_table(self) -> None:
        """Write the table of all figures."""
        write_whole(self.folder / "gpu.md", f"{table(self.figures())}\n".encode(), durable=False)

    def lines(self, start: int = 0) -> tuple[list[Figure], int]:
        """Return the complete lines from byte `start` on, and where the next line will begin. What a killed process has
        left of a line is skipped."""
        if not self.path.exists():
            return [], 0
        with self.path.open("rb") as file:
            file.seek(start)
            content = file.read()
        end = content.rfind(b"\n") + 1
        found = []
        for line in content[:end].split(b"\n")[:-1]:
            try:
                found.append(Figure(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return found, start + end

    def figures(self, stage: str = "") -> list[Figure]:
        """Return the current line of every measurement, in the order of the stages."""
        current: dict[tuple[str, str], Figure] = {}
        for line in self.lines()[0]:
            earlier = current.get((line.stage, line.what))
            if earlier is None or line.what == WHOLE or line.weight >= earlier.weight:
                current[line.stage, line.what] = line
        order = {name: number for number, name in enumerate(STAGES)}
        found = (line for line in current.values() if stage in ("", line.stage))
        return sorted(found, key=lambda line: order.get(line.stage, len(order)))

    def settled(self, stage: str, since: float = 0.0) -> set[str]:
        """Return the names that need no further measurement: measured since a time, or failed `ATTEMPTS` times."""
        failures = Counter(line.what for line in self.lines()[0] if self._counts(line, stage, since) and line.failed)
        measured = {line.what for line in self.figures(stage) if line.measured and line.at >= since}
        return measured | {what for what, count in failures.items() if count >= ATTEMPTS}

    def is_complete(self, stage: str, given: str, since: float = 0.0) -> bool:
        """Whether a call since a time, with the same inputs `given`, has left nothing to measure in a stage."""
        lines = (line for line in self.lines()[0] if self._counts(line, stage, since) and line.what == WHOLE)
        return any(line.status == COMPLETE and line.facts.get("given") == given for line in lines)

    @staticmethod
    def _counts(line: Figure, stage: str, since: float) -> bool:
        return line.stage == stage and line.at >= since


def append(path: Path, line: str) -> None:
    """Append a line to a file and flush it to disk, on a line of its own even if a killed process has left half a
    line."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def largest(figures: Sequence[Figure], fact: str, machine: str = "") -> float:
    """Return the largest value of a fact, such as `flops`, over the measured figures (of a machine); 0 if there is
    none."""
    chosen = (figure for figure in figures if figure.measured and machine in ("", figure.machine))
    return max((figure.facts.get(fact, 0.0) for figure in chosen), default=0.0)


def comparison(figure: Figure, figures: Sequence[Figure]) -> str:
    """Return the last cell of a measured figure: `beside`, the percentage of the machine's peak, and the ratio to the
    fastest rival, both measured on the same machine."""
    parts, facts = [figure.beside] if figure.beside else [], figure.facts
    peak = largest(figures, "flops", figure.machine)
    if peak and "operations" in facts:
        parts.append("/".join(f"{100 * rate / peak:.3g}" for rate in facts["operations"]) + " % of peak")
    if "rivals" in facts:
        same = (one for one in figures if one.measured and one.machine == figure.machine)
        rivals = [one for one in same if one.what.startswith(facts["rivals"])]
        if rivals:
            rival = max(rivals, key=lambda one: one.facts["rate"])
            name = facts["rivals"].split(", ")[-1]
            ratio = f"{facts['rate'] / rival.facts['rate']:.2f} x {name}"
            parts.append(f"{ratio}, {facts['memory'] / rival.facts['memory']:.2f} x its memory")
    return ", ".join(parts)


def rows(figures: Sequence[Figure]) -> list[tuple[Figure, tuple[str, str, str]]]:
    """Return the rows of the table: a row for each figure, but for tests a row for each file and each failure."""
    found: list[tuple[Figure, tuple[str, str, str]]] = []
    stages = Counter(figure.stage for figure in figures)
    files: set[str] = set()
    for figure in figures:
        file = figure.facts.get("file", "")
        if figure.what == WHOLE and not figure.failed and (stages[figure.stage] > 1 or figure.status == COMPLETE):
            continue
        if file and file not in files:
            files.add(file)
            outcomes = Counter(one.outcome for one in figures if one.facts.get("file") == file)
            counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
            found.append((figure, (file, counts, "")))
        if not file or not (figure.measured or figure.status.startswith("skipped")):
            what, value, beside = figure.cells
            found.append((figure, (what, value, comparison(figure, figures) if figure.measured else beside)))
    return found


def table(figures: Sequence[Figure], stage: str = "") -> str:
    """Return the Markdown table of all stages, or of one stage; with a column for the machine if there are several."""
    several = len({figure.machine for figure in figures}) > 1
    headings = ["measurement", "result", "comparison", *(["machine"] if several else [])]
    lines = [(one, (*cells, *([one.machine] if several else []))) for one, cells in rows(figures)]
    if stage:
        return markdown_table(headings, (cells for one, cells in lines if one.stage == stage))
    return markdown_table(["stage", *headings], ((one.stage, *cells) for one, cells in lines))
