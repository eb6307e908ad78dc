"""Format results as Markdown: the full table of one benchmark, and the comparisons of all benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.results import Result, Row

HIGHLIGHTS = {
    ("train_gpt_cpu", "the same, against the fastest peer"): "Train nanoGPT's CPU recipe (0.8M parameters)",
    ("train_gpt_baby", "the same, against the fastest peer"): "Train nanoGPT's baby GPT (10.7M parameters)",
    ("train_translator", "against the fastest plain loop"): "Train an encoder-decoder (3+3 layers, width 256)",
    ("sample_10.7M_batch_32", "against Hugging Face"): "Sample 32 texts from a 10.7M-parameter model",
    ("sample_0.8M_batch_1", "against CTranslate2 in float32"): "Sample one text from a 0.8M-parameter model",
}
"""Rows of the README's table, favourable and unfavourable: (benchmark, ending of a comparison) -> description."""


def markdown_table(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def number(value: float) -> str:
    """Format a number with three significant digits: 12,345 becomes 12,300, 3.14159 becomes 3.14."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if abs(float(digits)) >= 100 else f"{float(digits):g}"


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
    comparisons = [one for one in result.comparisons if one["what"].endswith(ending)] if result else []
    return result.contest(comparisons[0]) if result and comparisons else (None, None)
