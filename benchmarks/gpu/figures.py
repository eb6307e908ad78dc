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
from configs.atomic_file import write_whole

MEASURED = "measured"
COMPLETE, INCOMPLETE = "complete", "incomplete"
NO_TIME = "not measured: no time left"
STARTING, RUNNING = f"{CUT}starting", f"{CUT}running"
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
    as a percentage of the largest `flops`. `rate`, `memory`: compared with those of the figure named first in `rival`,
    a program named second. `partial`: whether turns are missing. `file`: of a test."""

    stage: str = ""
    machine: str = ""
    """GPU and torch version; figures of different machines are not compared."""

    commit: str = ""
    """State of this project; a figure of another state is measured again, and not compared until then."""

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
        """Importance of the line: measured or failed, then cut off or skipped, then not begun."""
        return 2 if self.measured or self.failed else 0 if self.status == NO_TIME else 1

    def replaces(self, earlier: Figure) -> bool:
        """Whether this line replaces an earlier one of the same name in the table."""
        return self.weight >= earlier.weight or (not earlier.measured and earlier.commit != self.commit)

    @property
    def cells(self) -> tuple[str, str, str]:
        """Cells of the row; a figure that was not measured shows the status instead of the value."""
        if self.measured:
            return self.what, self.figure, self.beside
        return self.what, self.status.replace("|", "/"), ""


class Results:
    """The figures of a folder: `gpu.jsonl`, to which every call and every stage appends, and `gpu.md`, their table."""

    def __init__(self, folder: Path, machine: str = "", commit: str = "", dry_run: bool = False) -> None:
        """machine, commit, dry_run: of the figures to be added."""
        self.folder, self.machine, self.commit, self.dry_run = folder, machine, commit, dry_run
        self.path = folder / "gpu.jsonl"
        self.lock = threading.Lock()

    def add(self, stage: str, figure: Figure) -> None:
        """Append a figure; it is on disk when this method returns."""
        line = replace(figure, stage=stage, machine=self.machine, commit=self.commit)
        line.at, line.dry_run = time.time(), self.dry_run
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
        figures = []
        for line in content[:end].split(b"\n")[:-1]:
            try:
                figures.append(Figure(**json.loads(line)))
            except (ValueError, TypeError):
                continue
        return figures, start + end

    def figures(self, stage: str = "") -> list[Figure]:
        """Return the current line of every measurement, in the order of the stages."""
        current: dict[tuple[str, str], Figure] = {}
        for line in self.lines()[0]:
            earlier = current.get((line.stage, line.what))
            if earlier is None or line.what == WHOLE or line.replaces(earlier):
                current[line.stage, line.what] = line
        order = {name: number for number, name in enumerate(STAGES)}
        chosen = (line for line in current.values() if stage in ("", line.stage))
        return sorted(chosen, key=lambda line: order.get(line.stage, len(order)))

    def own(self, lines: Sequence[Figure], stage: str) -> list[Figure]:
        """Return the lines that this state of the project has written about a stage."""
        return [line for line in lines if (line.stage, line.commit) == (stage, self.commit)]

    def settled(self, stage: str) -> set[str]:
        """Return the names that need no further measurement: measured in all turns, or failed `ATTEMPTS` times."""
        failures = Counter(line.what for line in self.own(self.lines()[0], stage) if line.failed)
        own = self.own(self.figures(stage), stage)
        measured = {line.what for line in own if line.measured and not line.facts.get("partial")}
        return measured | {what for what, count in failures.items() if count >= ATTEMPTS}

    def late(self, stage: str) -> set[str]:
        """Return the names whose next attempt comes after all others of the stage, since it may hang or fail again:
        failed, or begun `ATTEMPTS` times."""
        own = self.own(self.lines()[0], stage)
        begun = Counter(line.what for line in own if line.status in (STARTING, RUNNING))
        return {line.what for line in own if line.failed or begun[line.what] >= ATTEMPTS}

    def is_complete(self, stage: str, given: str) -> bool:
        """Whether a call with the same inputs `given` has left nothing to measure in a stage."""
        lines = (line for line in self.own(self.lines()[0], stage) if line.what == WHOLE)
        return any(line.status == COMPLETE and line.facts.get("given") == given for line in lines)


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
    """Return the last cell of a measured figure: `beside`, the percentage of the machine's peak, and the ratio to its
    rival, both measured on the same machine."""
    parts, facts = [figure.beside] if figure.beside else [], figure.facts
    peak = largest(figures, "flops", figure.machine)
    if peak and "operations" in facts:
        parts.append("/".join(f"{100 * rate / peak:.3g}" for rate in facts["operations"]) + " % of peak")
    what, program = facts.get("rival", ("", ""))
    for rival in figures:
        if rival.measured and (rival.what, rival.machine, rival.commit) == (what, figure.machine, figure.commit):
            ratio = f"{facts['rate'] / rival.facts['rate']:.2f} x {program}"
            parts.append(f"{ratio}, {facts['memory'] / rival.facts['memory']:.2f} x its memory")
    return ", ".join(parts)


def rows(figures: Sequence[Figure]) -> list[tuple[Figure, tuple[str, str, str]]]:
    """Return the rows of the table: a row for each figure, but for tests a row for each file and each failure."""
    cells: list[tuple[Figure, tuple[str, str, str]]] = []
    stages = Counter(figure.stage for figure in figures)
    files: set[tuple[str, str]] = set()
    for figure in figures:
        file = figure.facts.get("file", "")
        if figure.what == WHOLE and not figure.failed and (stages[figure.stage] > 1 or figure.status == COMPLETE):
            continue
        if file and (file, figure.commit) not in files:
            files.add((file, figure.commit))
            same = (one for one in figures if (one.facts.get("file"), one.commit) == (file, figure.commit))
            outcomes = Counter(one.outcome for one in same)
            counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
            cells.append((figure, (file, counts, "")))
        if not file or not (figure.measured or figure.status.startswith("skipped")):
            what, value, beside = figure.cells
            cells.append((figure, (what, value, comparison(figure, figures) if figure.measured else beside)))
    return cells


def table(figures: Sequence[Figure], stage: str = "") -> str:
    """Return the Markdown table of all stages, or of one stage; with a column for the machine, and for the commit, if
    there are several."""
    columns = [name for name in ("machine", "commit") if len({getattr(one, name) for one in figures}) > 1]
    headings = ["measurement", "result", "comparison", *columns]
    lines = [(one, (*cells, *(getattr(one, name) for name in columns))) for one, cells in rows(figures)]
    if stage:
        return markdown_table(headings, (cells for one, cells in lines if one.stage == stage))
    return markdown_table(["stage", *headings], ((one.stage, *cells) for one, cells in lines))
