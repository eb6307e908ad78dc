"""Results as Markdown tables: all rows of one benchmark, and the one-line comparisons of all."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.results import Result, Row


def full_table(result: Result) -> str:
    """Every contender of a benchmark, those that were skipped or failed included."""
    per_second = f"{result.unit}/s"
    heading = (
        f"| contender | {per_second} | min – max | ms/step | TFLOP/s | of the peak | memory, GB | reference / this |"
    )
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
    """Our rows stand out."""
    return f"**{row.name}**" if row.ours else row.name


def use(row: Row, result: Result) -> str:
    """Two cells: model FLOP/s and their share of the machine's measured peak."""
    if row.operations is None:
        return "– | –"
    return f"{row.operations / 1e12:.3f} | {100 * row.operations / result.best_peak:.1f} %"


def conditions(result: Result) -> str:
    """Rounds, machine, versions and matrix peak in a sentence or two."""
    peaks = ", ".join(f"{rate / 1e12:.2f} TFLOP/s in {name}" for name, rate in result.peak.items())
    return f"{place(result)} Matrix peak {peaks}."


def place(result: Result) -> str:
    """What results of one session have in common."""
    machine, rounds = result.machine, max((len(row.rounds) for row in result.rows), default=0)
    held = f" held to {str(machine['instructions']).upper()}" if "instructions" in machine else ""
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
"""The README's rows, good ones and bad ones: a benchmark and the end of one of its comparisons, and what is done."""


def highlights(results: Sequence[Result], instructions: str = "avx2") -> str:
    """The README's table: each of `HIGHLIGHTS` natively and, where measured, held to older `instructions`."""
    by_name = {result.benchmark: result for result in results}
    lines = [
        f"| | ours | fastest of the peers compared | ratio | with {instructions.upper()} only |",
        "|---|---|---|---|---|",
    ]
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
    """The result with our fastest row and the fastest peer of the comparison that ends so; None if not measured."""
    if result is None:
        return None
    comparison = next((one for one in result.comparisons if one["what"].endswith(ending)), None)
    if comparison is None:
        return None
    ours, peer = result.fastest(comparison["ours"]), result.fastest(comparison["peers"])
    return (result, ours, peer) if ours and peer else None


def comparison_table(results: Sequence[Result]) -> str:
    """All comparisons, each with the fastest of its peers, and which peers are missing."""
    lines = [line for result in results for line in comparisons(result)]
    missing = [f"{row.name} ({row.status})" for result in results for row in result.rows if not row.measured]
    table = "\n".join(["| what | ours | fastest peer | ratio |", "|---|---|---|---|", *lines])
    return f"{table}\n\nNot measured: {'; '.join(missing)}." if missing else table


def beside(ours: Row, peer: Row | None) -> tuple[str, str]:
    """A peer's rate and name, and how many times as fast ours is."""
    if peer is None:
        return "none was measured", "–"
    return f"{number(peer.rate)} ({peer.name})", f"{ours.rate / peer.rate:.1f} x"


def comparisons(result: Result) -> list[str]:
    """A line for each comparison of a benchmark in which something of ours was measured."""
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
    """Three digits that mean something: 12,345 becomes 12,300, 3.14159 becomes 3.14."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if abs(float(digits)) >= 100 else f"{float(digits):g}"
