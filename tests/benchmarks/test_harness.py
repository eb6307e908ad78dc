"""Harness: alternating turns, and contenders that cannot be measured."""

import itertools
import platform
from pathlib import Path

import pytest

from benchmarks.contender import Benchmark, Contender
from benchmarks.harness import MeasureSettings, alternate, measure
from benchmarks.results import Result


def contender(function: str, label: str = "", /, *, ours: bool = False, **arguments: object) -> Contender:
    """Return a contender of `contenders.py`, named after its function unless a label is given."""
    return Contender(label or function, f"tests.benchmarks.contenders:{function}", arguments, ours)


def run(tmp_path: Path, *contenders: Contender) -> Result:
    """Run a quick measurement and return the result as loaded from disk."""
    benchmark = Benchmark("trivial", "Nothing much", "things", contenders, contenders[0].name)
    measure(benchmark, MeasureSettings(rounds=3, seconds=0.02, warm_up=0.0, to=str(tmp_path)))
    return Result.load(tmp_path / "trivial.json")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, list[str]]:
    """Measure working and failing contenders once -> results, and the names and times of the logged steps."""
    folder = tmp_path_factory.mktemp("harness")
    log = str(folder / "log")
    result = run(
        folder,
        contender("counting", "A", ours=True, log=log, name="A"),
        contender("missing"),
        contender("counting", "B", log=log, name="B", units=7),
        contender("unwilling"),
        contender("broken"),
        contender("killed"),
        contender("missing", "our own bug", ours=True),
        contender("holding", megabytes=300),
    )
    lines = [line.split() for line in Path(log).read_text(encoding="utf-8").splitlines()]
    return result, [name for name, _ in sorted(lines, key=lambda line: float(line[1]))]


@pytest.mark.slow
def test_contenders_take_turns(measured: tuple[Result, list[str]]) -> None:
    """Guards against all turns of one contender in a row, so that a noisy minute affects only this contender."""
    _, order = measured
    assert [name for name, _ in itertools.groupby(order)] == ["A", "B"] * 4  # the warm-up and three rounds


def test_a_turn_counts_its_units_without_the_warm_up(measured: tuple[Result, list[str]]) -> None:
    """Guards against rates of other units than those of the steps, and turns that include the warm-up."""
    result, order = measured
    for name, units in (("A", 1), ("B", 7)):
        row = result.row(name)
        assert row is not None
        assert len(row.rates) == 3
        assert 1000 * units / row.milliseconds == pytest.approx(row.rate, rel=1e-4)
        assert order.count(name) >= 1 + 3 * (1 + 2)  # of the warm-up, and before and in each turn


def test_who_cannot_take_part_is_named_with_the_reason(measured: tuple[Result, list[str]]) -> None:
    """Guards against a peer that is missing from the table, or one failure that ends the whole measurement."""
    result, _ = measured
    status = {row.name: row.status for row in result.rows}
    assert status["missing"] == "skipped: No module named 'a_package_that_nobody_has'"
    assert status["unwilling"] == "skipped: no checkout was given"
    assert status["broken"] == "failed: IndexError: pop from empty list"
    assert status["killed"] == "failed: something about memory"
    assert status["our own bug"] == "failed: No module named 'a_package_that_nobody_has'"


def test_peak_memory_is_that_of_the_contender_alone(measured: tuple[Result, list[str]]) -> None:
    """Guards against rows with the parent's memory or a sum over contenders."""
    result, _ = measured
    small, large = result.row("A"), result.row("holding")
    assert small is not None
    assert large is not None
    assert small.peak_memory < 150e6 < 300e6 < large.peak_memory < 600e6


def test_the_result_names_machine_versions_and_matrix_peak(measured: tuple[Result, list[str]]) -> None:
    """Guards against figures without the machine and the versions they were measured on."""
    result, _ = measured
    assert {"processor", "cores"} <= result.machine.keys()
    assert {"python", "torch"} <= result.versions.keys()
    assert result.peak["bf16"] > 1e9
    assert result.peak["float32"] > 1e9


@pytest.mark.slow
def test_a_turn_does_not_contain_what_the_gpu_did_before() -> None:
    """Guards against an uncounted step whose time on the GPU is part of the turn."""
    (row,) = alternate([contender("queued")], MeasureSettings(rounds=1, seconds=0.0, warm_up=0.0))
    assert 500 <= row.milliseconds < 900


@pytest.mark.slow
def test_who_is_too_slow_is_given_up_and_the_others_are_measured() -> None:
    """Guards against one endless compilation or step that costs the figures of all other contenders."""
    settings = MeasureSettings(rounds=3, seconds=0.02, warm_up=0.0, at_once=3, patience=6.0)
    # `hanging`: a step for the set-up, two for each turn
    slow = [contender("endless"), contender("hanging", after=4), contender("holding", megabytes=1)]
    rows = {row.name: row for row in alternate(slow, settings)}
    assert rows["endless"].status == rows["hanging"].status == "not measured: no answer within 6.0 s"
    assert {name: len(row.rates) for name, row in rows.items()} == {"endless": 0, "hanging": 1, "holding": 3}


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="AVX2 is an instruction set of x86 processors"
)
def test_contenders_are_held_to_older_instructions(tmp_path: Path) -> None:
    """Guards against figures of this machine reported as those of an older processor, and hours of emulated bf16."""
    contenders = [contender("held_to", instructions="AVX2"), contender("counting", "peer bf16", log="", name="")]
    benchmark = Benchmark("trivial", "Nothing much", "things", tuple(contenders), "held_to")
    settings = MeasureSettings(rounds=1, seconds=0.01, warm_up=0.0, to=str(tmp_path), instructions="avx2")
    measure(benchmark, settings, peak={"float32": 1.0})
    result = Result.load(tmp_path / "trivial_avx2.json")
    assert {row.name: row.status for row in result.rows} == {
        "held_to": "measured",
        "peer bf16": "skipped: bf16 is emulated here",
    }
    assert result.machine["instructions"] == "avx2"
