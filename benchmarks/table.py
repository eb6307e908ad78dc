"""Generate the blocks between markers in README.md, docs/ and results/README.md from the JSON results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Result, Row, markdown_table, number
from configs.errors import UserError
from configs.program import expanded

NOTHING = "Nothing has been measured yet: `python -m benchmarks --help`."
NOTHING_ON_A_GPU = "`benchmarks/results` has no results of `bash benchmarks/gpu.sh` yet."

ORDER = ["train_gpt_cpu", "train_gpt_baby", "train_translator"]
"""Benchmarks listed first on a page."""


HIGHLIGHTS = {
    ("train_gpt_cpu", "the same, against the fastest peer"): "Train nanoGPT's CPU recipe (0.8M parameters)",
    ("train_gpt_baby", "the same, against the fastest peer"): "Train nanoGPT's baby GPT (10.7M parameters)",
    ("train_translator", "against the fastest plain loop"): "Train an encoder-decoder (3+3 layers, width 256)",
    ("sample_10.7M_batch_32", "against Hugging Face"): "Sample 32 texts from a 10.7M-parameter model",
    ("sample_0.8M_batch_1", "against CTranslate2 in float32"): "Sample one text from a 0.8M-parameter model",
}
"""Rows of the README's table, favourable and unfavourable: (benchmark, ending of a comparison) -> description."""


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
    single_machine = len(places) == 1
    parts += [f"{'All' if single_machine else ', '.join(names)}: {where}." for where, names in places.items()]
    return "\n\n".join(parts) or NOTHING


def gpu_tables(folder: Path) -> str:
    """Return the tables of the newest GPU benchmark (gpu-DATE/gpu.md) that is no dry run."""
    texts = (path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("gpu-*/gpu.md"), reverse=True))
    return next((text for text in texts if "dry run" not in text.splitlines()[-1]), NOTHING_ON_A_GPU)


def full_table(result: Result) -> str:
    """Return the table of all contenders of a benchmark, including skipped and failed ones."""
    headings = "contender", f"{result.unit}/s", "min – max", "ms/step", "TFLOP/s", "of peak", "memory, GB"
    table = markdown_table((*headings, "reference / this"), (cells(row, result) for row in result.rows))
    return f"{result.title}. The reference is “{result.reference}”.\n\n{table}\n\n{conditions(result)}"


def short_table(result: Result, restricted: Result | None = None) -> str:
    """Return the measured contenders of a benchmark with one number a cell, beside the rates of the same benchmark
    restricted to AVX2."""
    counted = any(row.operations is not None for row in result.rows)
    headings = [
        "contender",
        f"{result.unit}/s",
        *["of peak"] * counted,
        "memory, GB",
        *["with AVX2"] * bool(restricted),
    ]
    rows = []
    for row in result.rows:
        if row.measured:
            older = restricted and restricted.row(row.name)
            peak = "–" if row.operations is None else f"{100 * row.operations / result.best_peak:.1f} %"
            rows.append(
                [
                    f"**{row.name}**" if row.ours else row.name,
                    number(row.rate),
                    *[peak] * counted,
                    f"{row.peak_memory / 1e9:.2f}",
                    *[number(older.rate) if older else "–"] * bool(restricted),
                ]
            )
    dates = [result.date, *([f"{restricted.date} with AVX2"] if restricted else [])]
    return f"{result.title}.\n\n{markdown_table(headings, rows)}\n\n{', '.join(dict.fromkeys(dates))}."


def place(result: Result) -> str:
    """Return the processor, its cores and the version of torch."""
    machine, torch = result.machine, result.versions.get("torch", "–")
    return f"{machine['processor']}, {machine['cores']} cores, torch {torch}"


def cells(row: Row, result: Result) -> list[str]:
    """Return the cells of a row of `full_table`; a contender that was not measured shows its status."""
    name = f"**{row.name}**" if row.ours else row.name
    if not row.measured:
        return [name, row.status, *[""] * 6]
    operations, reference = row.operations, result.row(result.reference)
    return [
        name,
        number(row.rate),
        f"{number(min(row.rates))} – {number(max(row.rates))}",
        number(row.milliseconds),
        "–" if operations is None else f"{operations / 1e12:.3f}",
        "–" if operations is None else f"{100 * operations / result.best_peak:.1f} %",
        f"{row.peak_memory / 1e9:.2f}",
        f"{reference.rate / row.rate:.2f} x" if reference else "–",
    ]


def conditions(result: Result) -> str:
    """Return rounds, date, machine, versions and matrix peak as a caption."""
    machine = result.machine
    held = f" restricted to {str(machine['instructions']).upper()}" if "instructions" in machine else ""
    gpu = f", {machine['gpu']}" if "gpu" in machine else ""
    where = f"{machine['processor']}{held}, {machine['cores']} cores{gpu}"
    packages = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    peaks = ", ".join(f"{rate / 1e12:.2f} TFLOP/s in {name}" for name, rate in result.peak.items())
    return f"Medians of {result.rounds} alternating rounds, {result.date}; {where}; {packages}. Matrix peak {peaks}."


def comparison_table(results: Sequence[Result]) -> str:
    """Return the table of all comparisons with a measured row of ours, followed by the contenders not measured."""
    rows = []
    for result in results:
        for comparison in result.comparisons:
            ours, peer = result.contest(comparison)
            if ours:
                rival = (f"{number(peer.rate)} ({peer.name})", f"{ours.rate / peer.rate:.1f} x") if peer else None
                rate = f"{number(ours.rate)} {result.unit}/s"
                rows.append((comparison["what"], rate, *(rival or ("not measured", "–"))))
    missing: dict[str, dict[str, None]] = {}
    for result in results:
        for row in result.rows:
            if not row.measured:
                missing.setdefault(row.status, {})[row.name] = None
    table = markdown_table(("benchmark", "ours", "fastest peer", "ratio"), rows)
    groups = "; ".join(f"{', '.join(names)} ({status})" for status, names in missing.items())
    return f"{table}\n\nNot measured: {groups}." if missing else table


def highlights(results: Sequence[Result]) -> str:
    """Return the README's table: the ratios of `HIGHLIGHTS`, native and, if measured, restricted to AVX2."""
    by_name = {result.benchmark: result for result in results}
    rows = []
    for (name, ending), what in HIGHLIGHTS.items():
        ours, peer = contest(by_name.get(name), ending)
        if ours and peer:
            held, held_peer = contest(by_name.get(f"{name}_avx2"), ending)
            older = f"{held.rate / held_peer.rate:.1f} x" if held and held_peer else "–"
            rate = f"{number(ours.rate)} {by_name[name].unit}/s"
            rows.append((what, rate, f"{number(peer.rate)}: {peer.name}", f"{ours.rate / peer.rate:.1f} x", older))
    return markdown_table(("", "ours", "fastest peer", "ratio", "ratio with AVX2 only"), rows)


def contest(result: Result | None, ending: str) -> tuple[Row | None, Row | None]:
    """Return our fastest row and the fastest peer of the comparison with this ending; None if not measured."""
    for comparison in result.comparisons if result else ():
        if result and comparison["what"].endswith(ending):
            return result.contest(comparison)
    return None, None
