"""GPU benchmark: how figures are stored and compared, and how failures are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu.attention import Case, inputs, operations
from benchmarks.gpu.figures import MEASURED, NO_TIME, Figure, append, attempt, comparison, read_figures, tables
from benchmarks.gpu.gradients import compare
from benchmarks.gpu.quality import quality
from benchmarks.gpu.run import STAGES, GPUSettings, choose, gpu, run_stage
from benchmarks.gpu.tests import ALL, run_tests
from benchmarks.gpu.training import training_figure
from benchmarks.inputs import zipf_ids
from benchmarks.results import Row
from benchmarks.table import NOTHING_ON_A_GPU, gpu_tables
from configs.errors import UserError
from tests.conftest import ROOT, environment
from training.optimizer.weights_gradients_ema import Weights


@pytest.mark.long
def test_a_dry_run_measures_every_stage(tmp_path: Path) -> None:
    """Guards against mistakes that show only on a GPU, where time is expensive."""
    out = tmp_path / "out"
    done = subprocess.run(
        ["bash", str(ROOT / "benchmarks" / "gpu.sh"), "--dry-run", f"out={out}"],
        env=environment() | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    figures = read_figures(out)
    assert done.returncode == 0, [figure for figure in figures if figure.failed]
    assert {figure.stage for figure in figures} == set(STAGES)
    skipped = [figure.what for figure in figures if not figure.measured]
    assert all("nanoGPT" in what or "attention" in what for what in skipped), skipped
    assert done.stdout == (out / "gpu.md").read_text(encoding="utf-8")
    assert "dry run" in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "seconds", "status"), [("tests", 0.1, NO_TIME), ("nonsense", 60.0, "failed: exit code 1: KeyError")]
)
def test_a_stage_that_is_stopped_or_dies_is_a_row(stage: str, seconds: float, status: str, tmp_path: Path) -> None:
    """Guards against a stage that is killed without a word, and a crash that looks like a lack of time."""
    run_stage(stage, seconds, GPUSettings(dry_run=True, out=str(tmp_path)), tmp_path)
    (figure,) = read_figures(tmp_path)
    assert figure.stage == stage
    assert figure.status.startswith(status)


def test_a_failure_is_a_row(tmp_path: Path) -> None:
    """Guards against one measurement that ends the whole stage, and a table without the reason."""

    def fail() -> Figure:
        raise ValueError("two\nlines | here")

    figure = attempt("copy", fail)
    figure.stage = "maps"
    assert figure.status == "failed: ValueError: two lines | here"
    assert "| copy | failed: ValueError: two lines / here |  |" in tables([figure], {"maps": "Maps"})


def test_mistakes_are_found_before_anything_starts(tmp_path: Path) -> None:
    """Guards against GPU time wasted on a misspelt path or on a torch without CUDA."""
    with pytest.raises(UserError, match="stages=attn: unknown stage attn; choose from text, gradients, tests"):
        choose("attn")
    with pytest.raises(UserError, match="text=nowhere: no such file or folder"):
        gpu(GPUSettings(text="nowhere", out=str(tmp_path / "out")))
    with pytest.raises(UserError, match=r"pairs=.*: does not contain train.tsv"):
        gpu(GPUSettings(pairs=str(tmp_path), out=str(tmp_path / "out")))
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match=r"finds no CUDA GPU; --dry-run checks everything on a CPU"):
            gpu(GPUSettings(out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_a_measured_figure_is_replaced_by_a_newer_one_only(tmp_path: Path) -> None:
    """Guards against a call without time that hides what an earlier one has measured."""
    statuses = []
    for status in (NO_TIME, "failed: x", MEASURED, NO_TIME, "failed: y"):
        append(tmp_path, Figure("copy", status=status, stage="maps"))
        statuses.append(read_figures(tmp_path)[0].status)
    assert statuses == [NO_TIME, "failed: x", MEASURED, MEASURED, "failed: y"]


def test_comparisons_are_of_one_machine_and_batch() -> None:
    """Guards against a ratio of two machines or of two batch sizes."""
    row = Row("124M, ours, batch 2 x 9", True, 1e14, rates=[3.0], step_milliseconds=[1000.0], peak_memory=2)
    ours = training_figure(row)
    ours.machine = "H100"
    rivals = [
        Figure(f"124M, nanoGPT, batch {batch} x 9", facts={"rate": 2, "memory": 4}, machine=machine)
        for batch, machine in ((2, "H200"), (4, "H100"), (2, "H100"))
    ]
    assert comparison(ours, [ours, *rivals[:2]]) == ours.beside
    assert comparison(ours, [ours, *rivals]) == f"{ours.beside}, 1.50 x nanoGPT, 0.50 x its memory"


def test_a_training_that_learns_nothing_fails(tmp_path: Path) -> None:
    """Guards against a training without gradients that ends with exit code 0."""

    def log(*lines: tuple[str, str]) -> None:
        text = "".join(
            f"step {100 * number}/2500   4.0 % of 1 min | loss {loss} | lr 1.00e-03 | norm {norm} | 15 ms | 1.1M tok/s"
            f" | epoch 0.10 | eta 1:00\n"
            for number, (loss, norm) in enumerate(lines, 1)
        )
        (tmp_path / "log.txt").write_text(text, encoding="utf-8")

    record = '{"step": 200, "val/loss": 4.29, "seconds": 3.0, "tokens": 2000000}\n'
    (tmp_path / "metrics.jsonl").write_text('{"step": 100}\n' + record, encoding="utf-8")
    log(("4.3217", "0.00"), ("2.0", "0.00"))
    with pytest.raises(ArithmeticError, match="the gradient norm is 0 in every line"):
        quality("run", tmp_path, 60.0)
    log(("4.3217", "0.70"), ("4.2980", "1.04"))
    with pytest.raises(ArithmeticError, match=r"training loss 4\.3217 at first, 4\.2980 at the end"):
        quality("run", tmp_path, 60.0)
    log(("4.3217", "-"), ("2", "1.04"))
    assert quality("run", tmp_path, 60.0).figure == "validation loss 4.2900 at step 200, 3 s"


@pytest.mark.parametrize(("factor", "error"), [(0.0, "1"), (float("nan"), "inf")])
def test_a_gradient_of_zero_or_nan_is_no_rounding(factor: float, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a comparison that a missing gradient passes."""
    gradients_of = Weights.gradients_of

    def wrong(weights: Weights, loss: torch.Tensor, divisor: float) -> list[torch.Tensor]:
        first, *others = gradients_of(weights, loss, divisor)
        return [factor * first, *others]

    monkeypatch.setattr(Weights, "gradients_of", wrong)
    with pytest.raises(ArithmeticError, match=rf"^eager {error} \(.*weight\); at most 0.01 is rounding$"):
        compare("", "gpt", torch.float32, compiling=False)


GPU_TESTS = """
import pytest

pytestmark = pytest.mark.gpu

@pytest.mark.parametrize("letter", "ab")
def test_passes(letter):
    pass

def test_fails():
    assert 1 == 2, "as it should"

@pytest.fixture
def broken():
    yield
    raise ValueError("in the teardown")

def test_breaks(broken):
    pass

def test_skips():
    pytest.skip("needs two GPUs")
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_result_of_each_gpu_test_counts(workers: int, tmp_path: Path) -> None:
    """Guards against failures that are missing, or that lack their reason."""
    (tmp_path / "test_some.py").write_text(GPU_TESTS, encoding="utf-8")
    (tmp_path / "test_broken.py").write_text("import nowhere", encoding="utf-8")
    statuses = {Path(figure.what).name: figure.status for figure in run_tests(tmp_path, workers)}
    assert statuses["test_some.py::test_fails"] == "failed: AssertionError: as it should"
    assert statuses["test_some.py::test_breaks"] == "failed: ValueError: in the teardown"
    assert statuses["test_broken.py"].startswith("failed")
    assert set(statuses[ALL].removeprefix("failed: ").partition(";")[0].split(", ")) == {
        "3 passed",
        "1 failed",
        "1 skipped",
        "2 error",
    }


def test_attention_counts_as_the_papers_do() -> None:
    """Guards against a causal kernel that seems twice as fast as it is, and inputs of other shapes than the operation
    count assumes."""
    (query, _, _), _ = inputs(Case("flash", 64, True, False), 512, 2048, 256)
    assert query.shape == (4, 4, 512, 64)
    rows, heads, length, width = query.shape
    assert operations(2048, 256, 512, causal=False) == 4 * rows * heads * length**2 * width
    assert operations(2048, 256, 512, causal=True) == 2 * rows * heads * length**2 * width
    _, mask = inputs(Case("cuDNN", 64, False, True), 128, 1024, 128)
    assert mask is not None
    assert mask.sum(dim=-1).flatten().tolist()[:: len(mask) - 1] == [64, 128]  # no query without a key


def test_the_page_shows_the_newest_measurement_and_no_dry_run(tmp_path: Path) -> None:
    """Guards against figures of a tiny model on a CPU in docs/gpu.md."""
    assert gpu_tables(tmp_path) == NOTHING_ON_A_GPU
    for day, machine in (("01", "H100"), ("02", "H200"), ("03", "dry run")):
        (tmp_path / f"gpu-2026-01-{day}").mkdir()
        text = tables([Figure("a map", "1 ms", "much", stage="maps", machine=machine)], {"maps": "Recording maps"})
        (tmp_path / f"gpu-2026-01-{day}" / "gpu.md").write_text(text, encoding="utf-8")
    page = gpu_tables(tmp_path)
    assert "### Recording maps" in page
    assert "| a map | 1 ms | much |" in page
    assert page.endswith("; H200.")


def test_drawn_numbers_follow_zipfs_law() -> None:
    """Guards against uniformly drawn tokens, which would update embedding rows more evenly than a text does."""
    drawn = zipf_ids(1000, 400_000)
    counts = np.bincount(drawn, minlength=1000)
    assert drawn.max() == 999
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert (drawn == zipf_ids(1000, 400_000)).all()
