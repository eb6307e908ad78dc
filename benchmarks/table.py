"""Generate the blocks between markers in README.md, docs/ and results/README.md from the JSON results."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.figures import STAGES, Figure, Results
from benchmarks.gpu.figures import table as gpu_table
from benchmarks.report import comparison_table, highlights, place, short_table
from benchmarks.results import Result
from configs.errors import UserError
from configs.program import expanded

NOTHING = "Nothing has been measured yet: `python -m benchmarks --help`."
NOTHING_ON_A_GPU = "`benchmarks/results` has no results of `bash benchmarks/gpu.sh` yet."

ORDER = ["train_gpt_cpu", "train_gpt_baby", "train_translator"]
"""Benchmarks listed first on a page."""


@dataclass
class TableSettings:
    """Settings of `table`."""

    results: str = "benchmarks/results"
    """Folder of the JSON results; its README.md has all tables."""

    readme: str = "README.md"
    """Page with the short table."""

    speed: str = "docs/speed.md"
    """Page with the comparisons."""

    gpu: str = "docs/gpu.md"
    """Page with the GPU tables."""


def table(settings: TableSettings) -> None:
    """Write the results to the tables of README.md, docs/speed.md, docs/gpu.md and benchmarks/results/README.md."""
    results = expanded(settings.results)
    texts = blocks(results)
    for path in (*map(expanded, (settings.readme, settings.speed, settings.gpu)), results / "README.md"):
        path.write_text(with_blocks(path.read_text(encoding="utf-8"), texts), encoding="utf-8")
        print(path)


def blocks(folder: Path) -> dict[str, str]:
    """Return the text between `<!-- NAME -->` and `<!-- end of NAME -->`, by name, from the results in a folder."""
    results = load_results(folder)
    return {
        "benchmarks": summary(results),
        "comparisons": all_comparisons(results),
        "benchmark tables": benchmark_tables(results),
        "gpu tables": gpu_tables(folder),
    }


def with_blocks(page: str, texts: Mapping[str, str]) -> str:
    """Return the page with all its blocks replaced. Raises UserError if the page has no closed block."""
    count = 0
    for name, text in texts.items():
        pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- end of {name} -->", re.DOTALL)
        block = f"<!-- {name} -->\n{text}\n<!-- end of {name} -->"
        page, replaced = pattern.subn(block.replace("\\", r"\\"), page)
        count += replaced
    if not count:
        example = next(iter(texts))
        raise UserError(f"the page has no block such as <!-- {example} --> … <!-- end of {example} -->")
    return page


def load_results(folder: Path) -> list[Result]:
    """Load all results of a folder, sorted by `ORDER`, then by name."""
    results = [Result.load(path) for path in folder.glob("*.json")]

    def place(result: Result) -> tuple[int, str]:
        first = (number for number, name in enumerate(ORDER) if result.benchmark.startswith(name))
        return next(first, len(ORDER)), result.benchmark

    return sorted(results, key=place)


def summary(results: Sequence[Result]) -> str:
    """Return the README's table, with dates and machine."""
    native = [result for result in results if "instructions" not in result.machine]
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
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(str(result.machine.get("instructions", "")).upper(), []).append(result)
    parts = []
    for name, group in groups.items():
        heading = f"### All comparisons, restricted to {name}" if name else "### All comparisons"
        parts.append(f"{heading}\n\n{comparison_table(group)}")
    return "\n\n".join(parts) or NOTHING


def benchmark_tables(results: Sequence[Result]) -> str:
    """Return a titled table for each benchmark, with its rates restricted to AVX2 as a column."""
    by_name = {result.benchmark: result for result in results}
    beside = {f"{name}_avx2" for name in by_name}
    parts = [
        f"## {name}\n\n{short_table(result, by_name.get(f'{name}_avx2'))}"
        for name, result in by_name.items()
        if name not in beside
    ]
    places: dict[str, list[str]] = {}
    for name, result in by_name.items():
        places.setdefault(place(result), []).append(name)
    one = len(places) == 1
    parts += [f"{'All' if one else ', '.join(names)}: {where}." for where, names in places.items()]
    return "\n\n".join(parts) or NOTHING


def gpu_tables(folder: Path) -> str:
    """Return a titled table for each stage of the GPU benchmark."""
    figures = newest(folder)
    if not figures:
        return NOTHING_ON_A_GPU
    parts = []
    for stage, title in STAGES.items():
        if any(figure.stage == stage for figure in figures):
            parts += [f"### {title}", gpu_table(figures, stage)]
    days = {time.strftime("%Y-%m-%d", time.localtime(figure.at)) for figure in figures}
    machines, commits = {figure.machine for figure in figures}, {figure.commit for figure in figures}
    return "\n\n".join([*parts, f"{'; '.join([*sorted(days), *sorted(machines), *sorted(commits)])}."])


def newest(folder: Path) -> list[Figure]:
    """Load the newest measured figures of each stage in `folder` (gpu-DATE/gpu.jsonl), except dry runs."""
    latest: list[Figure] = []
    for path in sorted(folder.glob("gpu-*/gpu.jsonl"), reverse=True):
        figures = [figure for figure in Results(path.parent).figures() if not figure.dry_run]
        stages = {figure.stage for figure in figures if figure.measured} - {figure.stage for figure in latest}
        latest += [figure for figure in figures if figure.stage in stages]
    return latest
