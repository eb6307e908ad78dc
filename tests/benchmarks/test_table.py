"""Tables: values derived from the raw rounds, and pages that show exactly these tables."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from benchmarks.report import HIGHLIGHTS, comparison_table, full_table, number
from benchmarks.results import Result, Row, Turn
from benchmarks.table import all_comparisons, blocks, load_results, summary, with_blocks
from benchmarks.training.curves import REFERENCE, WINDOW, Curve, Curves, smoothed
from benchmarks.training.memory_model import MemoryModel, fit
from benchmarks.training.projection import Machine, Model, tokens_per_second
from tests.conftest import ROOT


def result(*rows: Row, comparisons: list[dict] | None = None) -> Result:
    """Return a result with a round number as matrix peak."""
    return Result(
        "trivial",
        "Nothing much",
        "tokens",
        rows[0].name,
        comparisons or [],
        "2026-01-01",
        {"processor": "P", "cores": 2},
        {"torch": "2"},
        {"bf16": 2e12, "float32": 1e12},
        list(rows),
    )


OURS = Row("ours", True, 1e9, peak_memory=10**9, rounds=[Turn(1, 2, 400), Turn(1, 2, 300), Turn(1, 2, 9000)])
SLOW = Row("slow peer", False, 1e9, peak_memory=2 * 10**9, rounds=[Turn(2, 1, 100), Turn(2, 1, 400), Turn(2, 1, 120)])
FAST = Row("fast peer", False, 1e9, rounds=[Turn(1, 1, 160)])
ABSENT = Row("absent peer", False, status="skipped: No module named 'absent'")
COMPARISON = {"what": "training", "ours": ["ours"], "peers": ["slow peer", "absent peer", "fast peer"]}


def test_ratios_are_those_of_medians() -> None:
    """Guards against means or best rounds, which a single outlier decides."""
    ours, slow = (median(turn.units / turn.seconds for turn in row.rounds) for row in (OURS, SLOW))
    assert (ours, slow) == (400, 60)
    table = full_table(result(OURS, SLOW))
    assert "| **ours** | 400 | 300 – 9,000 | 500 | 0.400 | 20.0 % | 1.00 | 1.00 x |" in table
    assert "| slow peer | 60 | 50 – 200 | 2,000 | 0.060 | 3.0 % | 2.00 | 6.67 x |" in table


def test_comparisons_take_the_fastest_peer_and_name_who_is_missing() -> None:
    """Guards against a ratio to the slowest peer, and a peer that is omitted without notice."""
    table = comparison_table([result(OURS, SLOW, FAST, ABSENT, comparisons=[COMPARISON])])
    assert "| training | 400 tokens/s | 160 (fast peer) | 2.5 x |" in table
    assert "absent peer (skipped: No module named 'absent')" in table
    assert "| absent peer | skipped: No module named 'absent' |" in full_table(result(OURS, ABSENT))


def test_older_instructions_have_a_table_of_their_own() -> None:
    """Guards against figures of two instruction sets in one table."""
    native = result(OURS, SLOW, FAST, comparisons=[COMPARISON])
    held = result(SLOW, FAST, comparisons=[COMPARISON | {"ours": ["slow peer"], "peers": ["fast peer"]}])
    held.machine["instructions"] = "avx2"
    first, second = all_comparisons([native, held]).split("restricted to AVX2")
    assert "| 2.5 x |" in first
    assert "| 0.4 x |" in second


def test_every_highlight_of_the_readme_is_a_measured_comparison() -> None:
    """Guards against a row that disappears from README.md because a benchmark or a comparison was renamed."""
    page = summary(load_results(ROOT / "benchmarks" / "results"))
    assert [what in page for what in HIGHLIGHTS.values()] == [True] * len(HIGHLIGHTS)


def test_without_any_peer_there_is_no_ratio() -> None:
    """Guards against an error, or a comparison of ours with itself, on a machine without peers."""
    assert "not measured | – |" in comparison_table([result(OURS, ABSENT, comparisons=[COMPARISON])])


@pytest.mark.parametrize(
    ("value", "shown"), [(12345, "12,300"), (3.14159, "3.14"), (0.0123, "0.0123"), (999.6, "1,000"), (60.0, "60")]
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    """Guards against digits that the measurements do not support."""
    assert number(value) == shown


def test_results_survive_the_disk(tmp_path: Path) -> None:
    """Guards against a field that is saved but not loaded, so that tables differ from the measurement."""
    whole = result(OURS, SLOW, ABSENT, comparisons=[COMPARISON])
    whole.save(tmp_path / "trivial.json")
    assert Result.load(tmp_path / "trivial.json") == whole
    assert json.loads((tmp_path / "trivial.json").read_text(encoding="utf-8"))["rows"][0]["rounds"][2]["units"] == 9000


@pytest.mark.parametrize("page", ["README.md", "docs/speed.md", "docs/gpu.md"])
def test_pages_show_what_the_committed_results_say(page: str) -> None:
    """Guards against a figure typed by hand, or results committed without `python -m benchmarks table`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert with_blocks(text, blocks(ROOT / "benchmarks" / "results")) == text


def test_every_block_has_its_place_in_a_page() -> None:
    """Guards against a table that is generated but shown on no page."""
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/speed.md", "docs/gpu.md")]
    names = blocks(ROOT / "benchmarks" / "results")
    assert [sum(f"<!-- {name} -->\n" in page for page in pages) for name in names] == [1] * len(names)


def test_loss_curves_are_means_of_whole_windows_and_their_distance() -> None:
    """Guards against an incomplete last window, whose noise would look like a gap, and gaps without their sign."""
    first, second = [float(n) for n in range(2 * WINDOW + 3)], [n + 0.5 for n in range(2 * WINDOW)]
    assert smoothed(first) == [(WINDOW - 1) / 2, WINDOW + (WINDOW - 1) / 2]
    both = Curves(2 * WINDOW, 1, {}, [Curve(REFERENCE, smoothed(second), 0.0), Curve("fast", smoothed(first), 0.0)])
    assert both.gaps("fast") == [-0.5, -0.5]
    assert both.largest_gap("fast") == 0.5


def test_the_memory_model_finds_the_constants_that_made_the_figures() -> None:
    """Guards against a wrong term of the formula, and a negative constant."""
    truth = MemoryModel(3e8, 30.0, 10.0, 0.0)
    rows = []
    shapes = [(128, 64, 32, 65), (256, 128, 32, 65), (256, 256, 16, 4096), (512, 128, 64, 65), (256, 512, 8, 65)]
    for width, context, batch, vocabulary in shapes:
        facts = {
            "parameters": 48 * width**2,
            "bytes_per_parameter": 20,
            "layers": 4,
            "width": width,
            "heads": width // 64,
            "context": context,
            "batch_size": batch,
            "vocabulary": vocabulary,
        }
        noise = 1.01 if width == 512 else 1.0
        rows.append(
            Row(str(facts), True, peak_memory=int(noise * truth.bytes(facts)), facts=facts, rounds=[Turn(1, 1, 1)])
        )
    found = fit(result(*rows))
    assert found.fixed == pytest.approx(truth.fixed, rel=0.1)
    assert found.per_activation == pytest.approx(truth.per_activation, rel=0.1)
    assert found.per_logit == pytest.approx(truth.per_logit, rel=0.1)
    assert 0 <= found.per_weight < 1


def test_the_projection_exchanges_gradients_as_the_trainer_does() -> None:
    """Guards against gradients of two bytes in the projection, where the trainer exchanges four."""
    model, machine = Model(2, 2, 64, 32, 100, "small"), Machine("four", 4, 1e12, 1e9, 1e9)
    computing = 8 * 32 * model.operations_per_token / (0.5 * 1e12)
    talking = 2 * 3 / 4 * 4 * model.parameters / 1e9
    rate, share = tokens_per_second(model, machine, batch=8, utilisation=0.5)
    assert rate == pytest.approx(4 * 8 * 32 / (computing + talking))
    assert share == pytest.approx(talking / (computing + talking))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train_gtp"], "train_gtp: no such command; there are train_gpt,"),
        (["train_gpt", "data=nowhere.txt"], "data=nowhere.txt: no such file"),
        (["train_gpt", "round=3"], "round: unknown setting (did you mean rounds?)"),
        (["recording", "only=nobody"], "only=nobody: matches no contender; choose from ours, "),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    """Guards against a traceback, or half an hour of measuring before a wrong setting is noticed."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
