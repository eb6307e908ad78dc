"""Tables: medians and ratios, and pages that show exactly these tables."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.results import Result, Row, number
from benchmarks.table import (
    HIGHLIGHTS,
    all_comparisons,
    blocks,
    comparison_table,
    full_table,
    load_results,
    summary,
    with_blocks,
)
from tests.conftest import ROOT

PAGES = ["README.md", "docs/speed.md", "docs/gpu.md", "benchmarks/results/README.md"]


def result(*rows: Row, comparisons: list[dict] | None = None) -> Result:
    """Return a result with a round number as matrix peak."""
    return Result(
        benchmark="trivial",
        title="Nothing much",
        unit="tokens",
        reference=rows[0].name,
        rounds=5,
        date="2026-01-01",
        machine={"processor": "P", "cores": 2},
        versions={"torch": "2"},
        peak={"bf16": 2e12, "float32": 1e12},
        comparisons=comparisons or [],
        rows=list(rows),
    )


def row(name: str, ours: bool, seconds: float, *units: int) -> Row:
    """Return a row with turns of these seconds, two steps and these units each."""
    measured = Row(name, ours, 1e9, peak_memory=10**9)
    for count in units:
        measured.add(seconds, 2, count)
    return measured


OURS = row("ours", True, 1.0, 400, 350, 300, 9000, 500)
SLOW = row("slow peer", False, 2.0, 100, 400, 120)
FAST = row("fast peer", False, 1.0, 160)
ABSENT = Row("absent peer", False, status="skipped: No module named 'absent'")
COMPARISON = {"what": "training", "ours": ["ours"], "peers": ["slow peer", "absent peer", "fast peer"]}


def test_ratios_are_those_of_medians() -> None:
    """Guards against means or best rounds, which a single outlier decides."""
    table = full_table(result(OURS, SLOW, ABSENT))
    assert "| **ours** | 400 | 300 – 9,000 | 500 | 0.400 | 20.0 % | 1.00 | 1.00 x |" in table
    assert "| slow peer | 60 | 50 – 200 | 1,000 | 0.060 | 3.0 % | 1.00 | 6.67 x |" in table
    assert "| absent peer | skipped: No module named 'absent' |" in table


def test_comparisons_take_the_fastest_peer_and_name_who_is_missing() -> None:
    """Guards against a ratio to the slowest peer, and a peer that is omitted without notice."""
    table = comparison_table([result(OURS, SLOW, FAST, ABSENT, comparisons=[COMPARISON])])
    assert "| training | 400 tokens/s | 160 (fast peer) | 2.5 x |" in table
    assert "absent peer (skipped: No module named 'absent')" in table
    assert "not measured | – |" in comparison_table([result(OURS, ABSENT, comparisons=[COMPARISON])])


def test_older_instructions_have_a_table_of_their_own() -> None:
    """Guards against figures of two instruction sets in one table."""
    native = result(OURS, SLOW, FAST, comparisons=[COMPARISON])
    held = result(SLOW, FAST, comparisons=[COMPARISON | {"ours": ["slow peer"], "peers": ["fast peer"]}])
    held.machine["instructions"] = "avx2"
    first, second = all_comparisons([native, held]).split("restricted to AVX2")
    assert "| 2.5 x |" in first
    assert "| 0.4 x |" in second


@pytest.mark.parametrize(
    ("value", "shown"), [(12345, "12,300"), (3.14159, "3.14"), (0.0123, "0.0123"), (999.6, "1,000"), (60.0, "60")]
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    """Guards against digits that the measurements do not support."""
    assert number(value) == shown


def test_tables_are_the_same_from_the_disk(tmp_path: Path) -> None:
    """Guards against a figure that the file lacks, which keeps only the median of the rounds and their limits."""
    whole = result(OURS, SLOW, ABSENT, comparisons=[COMPARISON])
    whole.save(tmp_path / "trivial.json")
    loaded = Result.load(tmp_path / "trivial.json")
    assert (full_table(loaded), comparison_table([loaded])) == (full_table(whole), comparison_table([whole]))
    assert json.loads((tmp_path / "trivial.json").read_text(encoding="utf-8"))["rows"][0]["rates"] == [300, 400, 9000]


def test_every_highlight_of_the_readme_is_a_measured_comparison() -> None:
    """Guards against a row that disappears from README.md because a benchmark or a comparison was renamed."""
    page = summary(load_results(ROOT / "benchmarks" / "results"))
    assert [what in page for what in HIGHLIGHTS.values()] == [True] * len(HIGHLIGHTS)


def test_pages_show_what_the_committed_results_say() -> None:
    """Guards against a figure typed by hand, results committed without `python -m benchmarks table`, and a table that
    is on no page."""
    texts = blocks(ROOT / "benchmarks" / "results")
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    assert {page: with_blocks(text, texts) for page, text in pages.items()} == pages
    assert [sum(f"<!-- {name} -->\n" in page for page in pages.values()) for name in texts] == [1] * len(texts)


@pytest.mark.slow
def test_mistakes_are_single_sentences(tmp_path: Path) -> None:
    """Guards against a traceback, and a benchmark that fails after minutes because of a typo."""

    def error(*arguments: str) -> str:
        command = [sys.executable, "-m", "benchmarks", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert error("train_gpt", "data=nowhere.txt") == "error: data=nowhere.txt: no such file\n"
    assert error("train_gpt", "colour=red").startswith("error: colour: unknown setting")
    assert error("fast").startswith("error: fast: no such command; there are train_gpt, ")
