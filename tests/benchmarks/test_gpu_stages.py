"""GPU stages: all of them on a CPU with tiny sizes, and how failures are reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import run as stages
from benchmarks.gpu.attention import Case, inputs, line, operations
from benchmarks.gpu.figures import Figure, Stage, StageSettings, read_figures, stage, table
from benchmarks.gpu.pages import NOTHING, gpu_tables
from benchmarks.gpu.roofline import bottleneck, of_gpt, of_translator
from benchmarks.gpu.run import PLAN, GPUSettings, Results, gpu, load, wanted
from benchmarks.gpu.tests import outcome
from benchmarks.gpu.tests import tests as stage_tests
from benchmarks.training.projection import Model
from benchmarks.zipf import zipf_ids
from configs.errors import UserError
from tests.conftest import ROOT, environment


def bash(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of benchmarks/ as a user does."""
    return subprocess.run(
        ["bash", str(ROOT / "benchmarks" / script), *arguments],
        env=environment() | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )


def files() -> set[Path]:
    """Return all files and folders of the repository except git's and Python's caches."""
    skipped = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
    return {path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)}


@pytest.mark.slow
def test_a_dry_run_goes_through_every_stage_and_leaves_nothing() -> None:
    """Guards against a script whose bugs show only on the GPU machine, where time is limited."""
    before = files()
    done = bash("gpu.sh", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row.split(" | ") for row in done.stdout.splitlines() if row.startswith("| ")][1:]
    assert {row[0].removeprefix("| ") for row in rows} == set(PLAN)
    assert "failed:" not in done.stdout
    assert "not measured:" not in done.stdout
    assert files() == before


@pytest.mark.slow
def test_a_stage_that_fails_is_a_row_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a failure that aborts all stages or goes unnoticed, and against the loss of an earlier call's
    results."""
    results = Results(tmp_path / "out", dry_run=True)
    results.keep(Stage("machine", [Figure("copy", "4 TB/s")], 1.0))
    results.keep(Stage("text", [Figure("shakespeare_gpu", "1.4")], 60.0))
    empty = tmp_path / "empty.txt"
    empty.touch()
    with pytest.raises(SystemExit) as ended:
        gpu(GPUSettings(out=str(tmp_path / "out"), text=str(empty), stages="text", dry_run=True))
    assert ended.value.code == 1
    assert "| text | shakespeare_gpu | failed: train.py ended with code 2 |" in capsys.readouterr().out
    results.keep(Stage("machine", [Figure("machine", status="not measured: no time left")]))
    kept = load(tmp_path / "out" / "gpu.json", dry_run=True)
    assert [(stage.name, stage.figures[0].status.split(":")[0]) for stage in kept] == [
        ("machine", "measured"),
        ("text", "failed"),
    ]
    assert "===== text: " in (tmp_path / "out" / "gpu.log").read_text(encoding="utf-8")


def test_a_stage_without_time_is_cut_and_one_without_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against the loss of the final table when time runs out."""
    kept: list[Stage] = []
    with (tmp_path / "log").open("w") as log:
        stages.run("machine", 1.0, [], tmp_path, log, True, kept.append)
        monkeypatch.setattr(stages, "SHORTEST", 0.0)
        monkeypatch.setattr(stages, "GRACE", 0.05)
        stage(lambda _: [Figure("device", "one that was there")])(StageSettings(to=str(tmp_path / "machine.json")))
        stages.run("machine", 0.0, [], tmp_path, log, True, kept.append)
        monkeypatch.setattr(stages, "GRACE", 60.0)
        stages.run("nonsense", 1.0, [], tmp_path, log, True, kept.append)
    cut, stopped, unknown = kept
    assert [one.figures[-1].status for one in (cut, stopped)] == [
        "not measured: no time left",
        "failed: did not finish within 0 s",
    ]
    assert stopped.figures[0].what == "device"
    assert unknown.figures[0].status.startswith("failed: exit code 2: error: gpu_nonsense: no such command")
    assert not cut.failures


def test_the_plan_ends_in_time_without_its_last_stage() -> None:
    """Guards against a plan that uses up the ten minutes of GPU time before the table is printed."""
    assert sum(list(PLAN.values())[:-1]) + stages.GRACE + stages.END < GPUSettings().seconds < 540


def test_mistakes_are_found_before_anything_starts(tmp_path: Path) -> None:
    """Guards against GPU time wasted on a misspelt path."""
    with pytest.raises(UserError, match="stages=attn: unknown stage attn; choose from machine, tests, attention"):
        wanted("attn")
    with pytest.raises(UserError, match="text=nowhere: no such file or folder"):
        gpu(GPUSettings(text="nowhere", out=str(tmp_path / "out")))
    with pytest.raises(UserError, match=r"pairs=.*: does not contain train.tsv"):
        gpu(GPUSettings(pairs=str(tmp_path), out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_results_never_mix_with_those_of_a_dry_run(tmp_path: Path) -> None:
    """Guards against figures of tiny models among real ones, and a traceback for a truncated file."""
    Results(tmp_path, dry_run=False).keep(Stage("machine", [Figure("copy", "4 TB/s")], 1.0))
    with pytest.raises(UserError, match="contains the results of a real run"):
        Results(tmp_path, dry_run=True)
    (tmp_path / "gpu.json").write_text('{"stages": [')
    with pytest.raises(UserError, match="not a valid results file"):
        Results(tmp_path, dry_run=False)


def test_half_written_figures_are_none(tmp_path: Path) -> None:
    """Guards against a missing table because a stage was stopped while it wrote its figures."""
    (tmp_path / "half.json").write_text('[{"what": "copy", "fig')
    assert read_figures(tmp_path / "half.json") == read_figures(tmp_path / "missing.json") == []


def test_a_stage_that_fails_at_once_leaves_no_earlier_figures(tmp_path: Path) -> None:
    """Guards against figures of an earlier run reported as those of a stage that failed before its first figure."""

    def failing(_: StageSettings) -> Iterator[Figure]:
        raise RuntimeError("no GPU")
        yield

    settings = StageSettings(to=str(tmp_path / "stage.json"))
    stage(lambda _: [Figure("speed", "1")])(settings)
    with pytest.raises(RuntimeError, match="no GPU"):
        stage(failing)(settings)
    assert json.loads(Path(settings.to).read_text()) == []


def test_a_junit_report_becomes_counts_and_a_line_for_each_failure() -> None:
    """Guards against failed GPU tests that the table reports as measured."""
    report = ElementTree.fromstring(
        "<testsuites><testsuite><testcase name='a'/><testcase name='b'><failure message='0.2 is not\n0.1'/></testcase>"
        "<testcase name='c'><skipped/></testcase></testsuite></testsuites>"
    )
    counts, failure = outcome(report)
    assert counts.figure == "1 passed, 1 failed, 1 skipped"
    assert (failure.what, failure.status) == ("b", "failed: 0.2 is not 0.1")


def test_files_of_tests_are_rows_of_their_own_and_end_in_time(tmp_path: Path) -> None:
    """Guards against a hanging test that hides the results of the other test files."""
    stage_tests(StageSettings(to=str(tmp_path / "cut.json"), seconds=0.0))
    cut = read_figures(tmp_path / "cut.json")
    assert {figure.what for figure in cut} == {
        f"tests marked gpu, {path.name}" for path in (ROOT / "tests" / "gpu").glob("test_*.py")
    }
    assert all(figure.status.startswith("not measured: no time left") for figure in cut)


def test_programs_that_tests_start_find_the_wheels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against subprocesses of the GPU tests that cannot import packages from `wheels=`, such as Hydra."""
    monkeypatch.setenv("PYTHONPATH", "/wheels/site-packages")
    assert environment()["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/wheels/site-packages"]


def test_attention_counts_as_the_papers_do() -> None:
    """Guards against a causal kernel that seems twice as fast as it is, and inputs of other shapes than the operation
    count assumes."""
    (query, _, _), _ = inputs(Case("flash", 64, True, False), 512, 2048, 256)
    assert query.shape == (4, 4, 512, 64)
    rows, heads, length, width = query.shape
    assert operations(2048, 256, 512, causal=False) == 4 * rows * heads * length**2 * width
    assert operations(2048, 256, 512, causal=True) == 2 * rows * heads * length**2 * width
    shown = line(Case("flash", 64, True, False), {4096: (5e14, 4e14), 512: (2e14, 1e14)}, 8e14, "", [])
    assert shown.figure == "512 200/100, 4k 500/400 TFLOP/s"
    assert shown.beside == "62/50 % of peak"


def test_padding_masks_leave_every_query_a_key() -> None:
    """Guards against rows without a visible key, whose output is NaN."""
    _, mask = inputs(Case("cuDNN", 64, False, True), 128, 1024, 128)
    assert mask is not None
    assert mask.shape == (8, 1, 1, 128)
    assert mask.sum(dim=-1).flatten().tolist()[0] == 64
    assert mask.sum(dim=-1).flatten().tolist()[-1] == 128


def test_the_pages_show_the_newest_measurement_and_no_dry_run(tmp_path: Path) -> None:
    """Guards against figures of a tiny model on a CPU in docs/gpu.md."""
    assert gpu_tables(tmp_path) == NOTHING
    for name, dry_run in (("gpu-2026-01-01", False), ("gpu-2026-01-02", True)):
        Results(tmp_path / name, dry_run).keep(Stage("maps", [Figure("a map", f"of {name}", "much")], 2.0))
    shown = gpu_tables(tmp_path)
    assert "### Recording attention maps" in shown
    assert "| a map | of gpu-2026-01-01 | much |" in shown
    assert "gpu-2026-01-02" not in shown


def test_every_figure_of_every_stage_is_in_the_one_table() -> None:
    """Guards against a skipped row that is missing, or that breaks the table with a "|" in its reason."""
    shown = table([Stage("maps", [Figure("a", "1 ms", "x"), Figure("b", status="skipped: no | here")])])
    assert shown.splitlines()[2:] == ["| maps | a | 1 ms | x |", "| maps | b | skipped: no / here |  |"]


def test_the_roofline_counts_what_the_formulas_say() -> None:
    """Guards against a difference between the documented formulas and the code."""
    work = of_gpt(Model(1, 1, 128, 64, 1000, "one"), 2)
    weights, tokens = 12 * 128**2 + 128_000, 128
    times = work.times(matrix_rate=1e12, memory_rate=1e9)
    assert times["products"] == pytest.approx(6 * weights * tokens / 1e12)
    assert times["attention"] == pytest.approx(7 * 64 * 128 * tokens / 0.4e12)
    assert times["memory"] == pytest.approx((156 * 128 * tokens + 12 * 1000 * tokens + 40 * weights) / 1e9)
    assert work.all_reduce == pytest.approx(2 * 7 / 8 * 4 * weights / 450e9)  # float32 gradients


def test_a_translator_passes_one_side_and_updates_both() -> None:
    """Guards against tokens counted on both sides of a translator, and gradients exchanged of one side only."""
    work, tokens = of_translator(1000), 1000
    both = (12 + 16) * 3 * 256**2 + 4000 * 256
    times = work.times(matrix_rate=1e12, memory_rate=1e9)
    assert times["products"] == pytest.approx(6 * both / 2 * tokens / 1e12)
    assert times["attention"] == pytest.approx(7 * 16 * 256 * 3 * tokens / 0.25e12)
    assert times["memory"] == pytest.approx((156 * 256 * 3 * tokens + 12 * 2000 * tokens + 40 * both) / 1e9)
    assert times["launches"] == pytest.approx((40 * 6 + 30) * 4e-6)
    assert work.operations == pytest.approx((6 * both / 2 + 12 * 3 * 16 * 256) * tokens)
    assert work.all_reduce == pytest.approx(2 * 7 / 8 * 4 * both / 450e9)


def test_launches_bound_a_step_only_if_they_take_longer_than_the_rest() -> None:
    """Guards against a step called bound by launches whose other times, one after the other, take longer."""
    times = {"products": 2.0, "attention": 1.0, "memory": 3.0, "launches": 4.0}
    assert bottleneck(times) == "memory"
    assert bottleneck(times | {"launches": 7.0}) == "launches"


def test_drawn_numbers_follow_zipfs_law() -> None:
    """Guards against uniformly drawn tokens, which would update embedding rows more evenly than a text does."""
    drawn = zipf_ids(1000, 400_000)
    counts = np.bincount(drawn, minlength=1000)
    assert drawn.max() == 999
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert (drawn == zipf_ids(1000, 400_000)).all()


def test_what_travels_to_a_gpu_machine_is_weighed(tmp_path: Path) -> None:
    """Guards against a package that exceeds the upload limit, noticed only when the GPU machine is already running."""
    nothing = (f"wheels={tmp_path / 'wheels'}", "packages=")
    fits = bash("gpu_package.sh", *nothing)
    assert fits.returncode == 0, fits.stderr
    assert fits.stdout.endswith("MiB of 60\n")
    heavy = tmp_path / "heavy.txt"
    heavy.write_bytes(bytes(3 << 20))
    too_much = bash("gpu_package.sh", *nothing, f"text={heavy}", "limit=3")
    assert (too_much.returncode, too_much.stderr) == (1, "error: the total exceeds limit=3 MiB\n")
    missing = bash("gpu_package.sh", *nothing, "text=nowhere")
    assert (missing.returncode, missing.stderr) == (2, "error: nowhere: no such file or folder\n")


def test_results_are_plain_json(tmp_path: Path) -> None:
    """Guards against a results file that only this version can read."""
    Results(tmp_path, dry_run=False).keep(Stage("machine", [Figure("copy", facts={"bandwidth": 4e12})], 1.0))
    values = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert values["stages"][0]["figures"][0]["facts"] == {"bandwidth": 4e12}
