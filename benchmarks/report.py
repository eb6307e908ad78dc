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


def summary_table(results: Sequence[Result]) -> str:
    """The first comparison of each benchmark beside the fastest peer of all; folded away all comparisons, and who is
    missing."""
    first = [line for result in results if (line := headline(result))]
    others = [line for result in results for line in comparisons(result)]
    missing = [f"{row.name} ({row.status})" for result in results for row in result.rows if not row.measured]
    title = f"All {len(others)} comparisons, and where we are slower"
    folded = ["", f"<details><summary>{title}</summary>", "", *HEADING, *others, "", "</details>"]
    if missing:
        folded[-2:-2] = ["", f"Not measured: {'; '.join(missing)}."]
    return "\n".join([*HEADLINE, *first, *folded])


HEADLINE = ["| what | ours | usual peer | ratio | fastest peer | ratio |", "|---|---|---|---|---|---|"]
HEADING = ["| what | ours | fastest peer | ratio |", "|---|---|---|---|"]


def headline(result: Result) -> str | None:
    """What, ours, the peer of the first comparison, and the fastest of all peers that the same rows of ours are
    compared with."""
    first = result.comparisons[0]
    ours, usual = result.fastest(first["ours"]), result.fastest(first["peers"])
    if ours is None:
        return None
    alike = [name for one in result.comparisons if one["ours"] == first["ours"] for name in one["peers"]]
    cells = [cell for peer in (usual, result.fastest(alike)) for cell in beside(ours, peer)]
    what = first["what"].partition(", against")[0]
    return f"| {what} | {number(ours.rate)} {result.unit}/s | {' | '.join(cells)} |"


def sentence(results: Sequence[Result]) -> str:
    """The first comparison of each benchmark as a list in one line: what, and how many times as fast ours is."""
    parts = []
    for result in results:
        first = result.comparisons[0]
        ours, peer = result.fastest(first["ours"]), result.fastest(first["peers"])
        if ours and peer:
            what, _, against = first["what"].partition(", against ")
            parts.append(f"{what}: {ours.rate / peer.rate:.1f} x {against or peer.name}")
    return "; ".join(parts)


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
