"""Format results as Markdown: the full table of one benchmark, and the comparisons of all benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results import Result, Row


def full_table(result: Result) -> str:
    """Return the table of all contenders of a benchmark, including skipped and failed ones."""
    per_second = f"{result.unit}/s"
    heading = f"| contender | {per_second} | min – max | ms/step | TFLOP/s | of peak | memory, GB | reference / this |"
    lines = [f"{result.title}. The reference is “{result.reference}”.", "", heading, "|---|" + "---|" * 7]
    reference = result.row(result.reference)
    for row in result.rows:
        if row.measured:
            ratio = f"{reference.rate / row.rate:.2f} x" if reference else "–"
            lines.append(
                f"| {label(row)} | {number(row.rate)} | {number(min(row.rates))} – {number(max(row.rates))} |"
                f" {number(row.milliseconds)} | {use(row, result)} | {row.peak_memory / 1e9:.2f} | {ratio} |"
            )
        else:
            lines.append(f"| {label(row)} | {row.status} |" + " |" * 6)
    return "\n".join([*lines, "", conditions(result)])


def label(row: Row) -> str:
    """Return the row's name, in bold for our rows."""
    return f"**{row.name}**" if row.ours else row.name


def use(row: Row, result: Result) -> str:
    """Return two cells: model TFLOP/s, and their percentage of the machine's measured peak."""
    if row.operations is None:
        return "– | –"
    return f"{row.operations / 1e12:.3f} | {100 * row.operations / result.best_peak:.1f} %"


def conditions(result: Result) -> str:
    """Return rounds, date, machine, versions and matrix peak as a caption."""
    peaks = ", ".join(f"{rate / 1e12:.2f} TFLOP/s in {name}" for name, rate in result.peak.items())
    return f"{place(result)} Matrix peak {peaks}."


def place(result: Result) -> str:
    """Return rounds, date, machine and versions as a caption."""
    machine, rounds = result.machine, max((len(row.rounds) for row in result.rows), default=0)
    held = f" restricted to {str(machine['instructions']).upper()}" if "instructions" in machine else ""
    where = f"{machine['processor']}{held}, {machine['cores']} cores" + (
        f", {machine['gpu']}" if "gpu" in machine else ""
    )
    packages = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return f"Medians of {rounds} alternating rounds, {result.date}; {where}; {packages}."


HIGHLIGHTS = {
    ("train_gpt_cpu", "the same, against the fastest peer"): "Train nanoGPT's CPU recipe (0.8M parameters)",
    ("train_gpt_baby", "the same, against the fastest peer"): "Train nanoGPT's baby GPT (10.7M parameters)",
    ("train_translator", "against the fastest plain loop"): "Train an encoder-decoder (3+3 layers, width 256)",
    ("sample_10.7M_batch_32", "against Hugging Face"): "Sample 32 texts from 10.7M parameters",
    ("sample_0.8M_batch_1", "against CTranslate2 in float32"): "Sample one text from 0.8M parameters",
    ("recording", "the peer only returns them"): "Record all attention maps, with scores and checks",
}
"""Rows of the README's table, favourable and unfavourable: (benchmark, ending of a comparison) -> description."""


def highlights(results: Sequence[Result], instructions: str = "avx2") -> str:
    """Return the README's table: the ratios of `HIGHLIGHTS`, native and, if measured, restricted to `instructions`."""
    by_name = {result.benchmark: result for result in results}
    lines = [f"| | ours | fastest peer | ratio | ratio with {instructions.upper()} only |", "|---|---|---|---|---|"]
    for (name, ending), what in HIGHLIGHTS.items():
        compared = contest(by_name.get(name), ending)
        if compared is None:
            continue
        result, ours, peer = compared
        held = contest(by_name.get(f"{name}_{instructions}"), ending)
        older = f"{held[1].rate / held[2].rate:.1f} x" if held else "–"
        cells = (f"{number(ours.rate)} {result.unit}/s", f"{number(peer.rate)}: {peer.name}")
        lines.append(f"| {what} | {' | '.join(cells)} | {ours.rate / peer.rate:.1f} x | {older} |")
    return "\n".join(lines)


def contest(result: Result | None, ending: str) -> tuple[Result, Row, Row] | None:
    """Return the result, our fastest row and the fastest peer of the comparison with this ending, or None."""
    if result is None:
        return None
    comparison = next((one for one in result.comparisons if one["what"].endswith(ending)), None)
    if comparison is None:
        return None
    ours, peer = result.fastest(comparison["ours"]), result.fastest(comparison["peers"])
    return (result, ours, peer) if ours and peer else None


def comparison_table(results: Sequence[Result]) -> str:
    """Return the table of all comparisons, each with its fastest peer, followed by the contenders not measured."""
    lines = [line for result in results for line in comparisons(result)]
    missing = [f"{row.name} ({row.status})" for result in results for row in result.rows if not row.measured]
    table = "\n".join(["| benchmark | ours | fastest peer | ratio |", "|---|---|---|---|", *lines])
    return f"{table}\n\nNot measured: {'; '.join(missing)}." if missing else table


def beside(ours: Row, peer: Row | None) -> tuple[str, str]:
    """Return two cells: the peer's rate and name, and the ratio of our rate to the peer's rate."""
    if peer is None:
        return "not measured", "–"
    return f"{number(peer.rate)} ({peer.name})", f"{ours.rate / peer.rate:.1f} x"


def comparisons(result: Result) -> list[str]:
    """Return one table row for each comparison of a benchmark in which one of our contenders was measured."""
    lines = []
    for comparison in result.comparisons:
        ours, peer = result.fastest(comparison["ours"]), result.fastest(comparison["peers"])
        if ours is None:
            continue
        lines.append(
            f"| {comparison['what']} | {number(ours.rate)} {result.unit}/s | {' | '.join(beside(ours, peer))} |"
        )
    return lines


def number(value: float) -> str:
    """Format a number with three significant digits: 12,345 becomes 12,300, 3.14159 becomes 3.14."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if abs(float(digits)) >= 100 else f"{float(digits):g}"
