"""Results into the pages: what stands between markers in README.md and docs/ is written from JSON files,
never by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.pages import gpu_roofline, gpu_tables
from benchmarks.report import full_table, place, sentence, summary_table
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
    """Folder of the JSON files."""

    readme: str = "README.md"
    """The page with the short table."""

    speed: str = "docs/speed.md"
    """The page with all tables."""

    gpu: str = "docs/gpu.md"
    """The page about GPUs."""


def table(settings: TableSettings) -> None:
    """Write the tables of README.md, docs/speed.md and docs/gpu.md from the results."""
    written = blocks(expanded(settings.results))
    for path in (expanded(settings.readme), expanded(settings.speed), expanded(settings.gpu)):
        page = path.read_text(encoding="utf-8")
        path.write_text(with_blocks(page, written), encoding="utf-8")
        print(path)


def load_results(folder: Path) -> list[Result]:
    """All results of a folder, loss curves excepted, in the order of `ORDER`, then by name."""
    found = [Result.load(path) for path in folder.glob("*.json") if path.name != FILE]
    return sorted(found, key=lambda one: (place_in_order(one.benchmark), one.benchmark))


def place_in_order(benchmark: str) -> int:
    """Those of `ORDER` come first, each followed by the same with older instructions."""
    return next((place for place, name in enumerate(ORDER) if benchmark.startswith(name)), len(ORDER))


ORDER = ["train_gpt_cpu", "train_gpt_baby", "train_translator"]
"""Benchmarks that come first on a page."""


def summary(results: Sequence[Result]) -> str:
    """The README's table, and under it where and when: a line for each session that results come from.

    Then a line for each older instruction set that contenders were held to.
    """
    compared = [result for result in results if result.comparisons]
    native = [result for result in compared if "instructions" not in result.machine]
    if not native:
        return NOTHING
    held: dict[str, list[Result]] = {}
    for result in compared:
        if result not in native:
            held.setdefault(str(result.machine["instructions"]).upper(), []).append(result)
    places = dict.fromkeys(place(result) for result in native)
    lines = [f"The same machine held to {name}: {sentence(of_it)}." for name, of_it in held.items()]
    return "\n\n".join([summary_table(native), *places, *lines])


def all_tables(results: Sequence[Result]) -> str:
    """Every result in full."""
    tables = [f"### {result.benchmark}\n\n{full_table(result)}" for result in results]
    return "\n\n".join(tables) or NOTHING


def memory(results: Sequence[Result]) -> str:
    """The memory model beside what was measured."""
    scaling = [result for result in results if result.benchmark == "scaling"]
    return memory_tables(scaling[0]) if scaling else NOTHING


def projection(results: Sequence[Result]) -> str:
    """What other machines would do, by the share of the peak that the baby GPT reached and by the memory model."""
    by_name = {result.benchmark: result for result in results}
    baby, scaling = by_name.get("train_gpt_baby"), by_name.get("scaling")
    row = baby and baby.fastest([row.name for row in baby.rows if row.ours])
    if not (baby and scaling and row and row.operations):
        return NOTHING
    return projection_table(row.operations / baby.best_peak, fit(scaling))


def loss_curves(path: Path) -> str:
    """What `curves` measured."""
    return curves_table(Curves.load(path)) if path.exists() else NOTHING


def blocks(folder: Path) -> dict[str, str]:
    """What stands between `<!-- NAME -->` and `<!-- end of NAME -->`, by name, from the results in a folder."""
    results = load_results(folder)
    return {
        "benchmarks": summary(results),
        "benchmark tables": all_tables(results),
        "loss curves": loss_curves(folder / FILE),
        "memory model": memory(results),
        "projection": projection(results),
        "gpu tables": gpu_tables(folder),
        "gpu roofline": gpu_roofline(folder),
    }


def with_blocks(page: str, written: Mapping[str, str]) -> str:
    """The page with every block written anew. Raises UserError when it has none or one is not closed."""
    count = 0
    for name, text in written.items():
        pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- end of {name} -->", re.DOTALL)
        block = f"<!-- {name} -->\n{text}\n<!-- end of {name} -->"
        page, found = pattern.subn(block.replace("\\", r"\\"), page)
        count += found
    if not count:
        raise UserError(
            f"the page has no block such as <!-- {next(iter(written))} --> … <!-- end of {next(iter(written))} -->"
        )
    return page
