"""Generate the blocks between markers in README.md and docs/ from the JSON results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.pages import gpu_roofline, gpu_tables
from benchmarks.instructions import LIMITS
from benchmarks.report import comparison_table, full_table, highlights
from benchmarks.results import Result
from benchmarks.training.curves import FILE, Curves
from benchmarks.training.curves import summary as curves_table
from benchmarks.training.memory_model import fit, memory_tables
from benchmarks.training.projection import projection_table
from configs.errors import UserError
from configs.program import expanded

NOTHING = "Nothing has been measured yet: `python -m benchmarks --help`."


@dataclass
class TableSettings:
    """Settings of `table`."""

    results: str = "benchmarks/results"
    """Folder of the JSON results."""

    readme: str = "README.md"
    """Page with the short table."""

    speed: str = "docs/speed.md"
    """Page with all tables."""

    gpu: str = "docs/gpu.md"
    """Page with the GPU tables."""


def table(settings: TableSettings) -> None:
    """Write the results to the tables of README.md, docs/speed.md and docs/gpu.md."""
    written = blocks(expanded(settings.results))
    for path in map(expanded, (settings.readme, settings.speed, settings.gpu)):
        page = path.read_text(encoding="utf-8")
        path.write_text(with_blocks(page, written), encoding="utf-8")
        print(path)


def load_results(folder: Path) -> list[Result]:
    """Load all results of a folder except the loss curves, sorted by `ORDER`, then by name."""
    paths = [*folder.glob("*.json"), *(path for name in LIMITS for path in folder.glob(f"{name}/*.json"))]
    found = [Result.load(path) for path in paths if path.name != FILE]
    return sorted(found, key=lambda one: (place_in_order(one.benchmark), one.benchmark))


def place_in_order(benchmark: str) -> int:
    """Return the index in `ORDER` of the benchmark, which may have an instruction set as suffix; others come last."""
    return next((place for place, name in enumerate(ORDER) if benchmark.startswith(name)), len(ORDER))


ORDER = ["train_gpt_cpu", "train_gpt_baby", "train_translator"]
"""Benchmarks listed first on a page."""


def summary(results: Sequence[Result]) -> str:
    """Return the README's table, with dates and machine."""
    native = [result for result in results if result.comparisons and "instructions" not in result.machine]
    if not native:
        return NOTHING
    machine, dates = native[0].machine, sorted(result.date for result in native)
    when = dates[-1] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return (
        f"{highlights(results)}\n\n"
        f"Medians of alternating rounds, {when}; {machine['processor']}, {machine['cores']} cores; no GPU."
    )


def all_comparisons(results: Sequence[Result]) -> str:
    """Return all comparisons: first with the native instruction set, then restricted to each older one."""
    held: dict[str, list[Result]] = {}
    for result in results:
        if result.comparisons:
            held.setdefault(str(result.machine.get("instructions", "")).upper(), []).append(result)
    parts = []
    for name, of_it in held.items():
        heading = f"### All comparisons, restricted to {name}" if name else "### All comparisons"
        parts.append(f"{heading}\n\n{comparison_table(of_it)}")
    return "\n\n".join(parts) or NOTHING


def all_tables(results: Sequence[Result]) -> str:
    """Return the full table of every result."""
    tables = [f"### {result.benchmark}\n\n{full_table(result)}" for result in results]
    return "\n\n".join(tables) or NOTHING


def projection(baby: Result | None, scaling: Result | None) -> str:
    """Return the projected speed of other machines, from the baby GPT's fraction of the peak and the memory model."""
    row = baby and baby.fastest([row.name for row in baby.rows if row.ours])
    if not (baby and scaling and row and row.operations):
        return NOTHING
    return projection_table(row.operations / baby.best_peak, fit(scaling))


def blocks(folder: Path) -> dict[str, str]:
    """Return the text between `<!-- NAME -->` and `<!-- end of NAME -->`, by name, from the results in a folder."""
    results = load_results(folder)
    by_name = {result.benchmark: result for result in results}
    scaling, curves = by_name.get("scaling"), folder / FILE
    return {
        "benchmarks": summary(results),
        "comparisons": all_comparisons(results),
        "benchmark tables": all_tables(results),
        "loss curves": curves_table(Curves.load(curves)) if curves.exists() else NOTHING,
        "memory model": memory_tables(scaling) if scaling else NOTHING,
        "projection": projection(by_name.get("train_gpt_baby"), scaling),
        "gpu tables": gpu_tables(folder),
        "gpu roofline": gpu_roofline(folder),
    }


def with_blocks(page: str, written: Mapping[str, str]) -> str:
    """Return the page with all its blocks replaced. Raises UserError if the page has no closed block."""
    count = 0
    for name, text in written.items():
        pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- end of {name} -->", re.DOTALL)
        block = f"<!-- {name} -->\n{text}\n<!-- end of {name} -->"
        page, found = pattern.subn(block.replace("\\", r"\\"), page)
        count += found
    if not count:
        example = next(iter(written))
        raise UserError(f"the page has no block such as <!-- {example} --> … <!-- end of {example} -->")
    return page
