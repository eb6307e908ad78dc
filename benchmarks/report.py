"""Format results as Markdown: the full table of one benchmark, and the comparisons of all benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.results import Result, Row


def markdown_table(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def full_table(result: Result) -> str:
    """Return the table of all contenders of a benchmark, including skipped and failed ones."""
    heading = (
        f"| contender | {result.unit}/s | min – max | ms/step | TFLOP/s | of peak | memory, GB | reference / this |"
    )
    lines = [f"{result.title}. The reference is “{result.reference}”.", "", heading, "|---|" + "---|" * 7]
    reference = result.row(result.reference)
    for row in result.rows:
        name = f"**{row.name}**" if row.ours else row.name
        if not row.measured:
            lines.append(f"| {name} | {row.status} |" + " |" * 6)
            continue
        use, ratio = "– | –", "–"
        if row.operations is not None:
            use = f"{row.operations / 1e12:.3f} | {100 * row.operations / result.best_peak:.1f} %"
        if reference:
            ratio = f"{reference.rate / row.rate:.2f} x"
        lines.append(
            f"| {name} | {number(row.rate)} | {number(min(row.rates))} – {number(max(row.rates))} |"
            f" {number(row.milliseconds)} | {use} | {row.peak_memory / 1e9:.2f} | {ratio} |"
        )
    return "\n".join([*lines, "", conditions(result)])


def conditions(result: Result) -> str:
    """Return rounds, date, machine, versions and matrix peak as a caption."""
    machine, rounds = result.machine, max((len(row.rounds) for row in result.rows), default=0)
    held = f" restricted to {str(machine['instructions']).upper()}" if "instructions" in machine else ""
    gpu = f", {machine['gpu']}" if "gpu" in machine else ""
    where = f"{machine['processor']}{held}, {machine['cores']} cores{gpu}"
    packages = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    peaks = ", ".join(f"{rate / 1e12:.2f} TFLOP/s in {name}" for name, rate in result.peak.items())
    return f"Medians of {rounds} alternating rounds, {result.date}; {where}; {packages}. Matrix peak {peaks}."


HIGHLIGHTS = {
    ("train_gpt_cpu", "the same, against the fastest peer"): "Train nanoGPT's CPU recipe (0.8M parameters)",
    ("train_gpt_baby", "the same, against the fastest peer"): "Train nanoGPT's baby GPT (10.7M parameters)",
    ("train_translator", "against the fastest plain loop"): "Train an encoder-decoder (3+3 layers, width 256)",
    ("sample_10.7M_batch_32", "against Hugging Face"): "Sample 32 texts from a 10.7M-parameter model",
    ("sample_0.8M_batch_1", "against CTranslate2 in float32"): "Sample one text from a 0.8M-parameter model, by torch",
    ("recording", "only returns them"): "Record all attention maps, including head scores and the consistency check",
}
"""Rows of the README's table, favourable and unfavourable: (benchmark, ending of a comparison) -> description."""


def highlights(results: Sequence[Result]) -> str:
    """Return the README's table: the ratios of `HIGHLIGHTS`, native and, if measured, restricted to AVX2."""
    by_name = {result.benchmark: result for result in results}
    lines = ["| | ours | fastest peer | ratio | ratio with AVX2 only |", "|---|---|---|---|---|"]
    for (name, ending), what in HIGHLIGHTS.items():
        ours, peer = contest(by_name.get(name), ending)
        if ours and peer:
            held, held_peer = contest(by_name.get(f"{name}_avx2"), ending)
            older = f"{held.rate / held_peer.rate:.1f} x" if held and held_peer else "–"
            cells = (f"{number(ours.rate)} {by_name[name].unit}/s", f"{number(peer.rate)}: {peer.name}")
            lines.append(f"| {what} | {' | '.join(cells)} | {ours.rate / peer.rate:.1f} x | {older} |")
    return "\n".join(lines)


def contest(result: Result | None, ending: str) -> tuple[Row | None, Row | None]:
    """Return our fastest row and the fastest peer of the comparison with this ending; None if not measured."""
    comparisons = [one for one in result.comparisons if one["what"].endswith(ending)] if result else []
    return result.contest(comparisons[0]) if result and comparisons else (None, None)


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
    missing = dict.fromkeys(
        f"{row.name} ({row.status})" for result in results for row in result.rows if not row.measured
    )
    table = markdown_table(("benchmark", "ours", "fastest peer", "ratio"), rows)
    return f"{table}\n\nNot measured: {'; '.join(missing)}." if missing else table


def number(value: float) -> str:
    """Format a number with three significant digits: 12,345 becomes 12,300, 3.14159 becomes 3.14."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if abs(float(digits)) >= 100 else f"{float(digits):g}"
