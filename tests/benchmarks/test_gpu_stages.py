"""GPU stages: how figures are stored, what a second call repeats, and how failures are reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.contender import Contender
from benchmarks.gpu import run as stages
from benchmarks.gpu import stage as one_stage
from benchmarks.gpu import tests as gpu_tests
from benchmarks.gpu.attention import Case, inputs, line, operations
from benchmarks.gpu.contenders import together
from benchmarks.gpu.figures import CUT, MEASURED, NO_TIME, WHOLE, Figure, Results, comparison, table
from benchmarks.gpu.gradients import compared
from benchmarks.gpu.quality import TEXT, TRANSLATION, Progress, lengths
from benchmarks.gpu.run import BUDGETS, GPUSettings, gpu, locked, wanted
from benchmarks.gpu.stage import Measurement, StageSettings, children, single, stage
from benchmarks.gpu.training import line as training_line
from benchmarks.inputs import zipf_ids
from benchmarks.machine import commit
from benchmarks.results import Row
from benchmarks.table import NOTHING_ON_A_GPU, gpu_tables
from configs.errors import UserError
from training.optimizer.weights_and_gradients import Weights


@pytest.mark.slow
def test_a_stage_that_fails_is_a_row_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a failure that aborts all stages or goes unnoticed, and against the loss of an earlier call's
    results."""
    out, empty = tmp_path / "out", tmp_path / "empty.txt"
    out.mkdir()
    empty.touch()
    Results(out, commit=commit(), dry_run=True).add("machine", Figure("copy", "4 TB/s"))
    settings = {"out": str(out), "text": str(empty), "stages": "text", "dry_run": True}
    with pytest.raises(SystemExit) as ended:
        gpu(GPUSettings(**settings))  # type: ignore[arg-type]
    assert ended.value.code == 1
    name = "shakespeare_gpu, 1 minute of training"
    reason = f"train.py ended with code 2: error: {empty}: "
    assert f"| text | {name} | failed: {reason}" in capsys.readouterr().out
    assert "| machine | copy | 4 TB/s |" in (out / "gpu.md").read_text(encoding="utf-8")
    log = (out / "gpu.log").read_text(encoding="utf-8")
    assert log.count("===== text: ") == 2  # the second with the time that remained
    with pytest.raises(SystemExit):
        gpu(GPUSettings(**settings))  # type: ignore[arg-type]
    assert (out / "gpu.log").read_text(encoding="utf-8") == log  # what has failed twice is not repeated


@pytest.fixture
def call(tmp_path: Path) -> Iterator[stages.Call]:
    """Return a call in an empty folder."""
    with ExitStack() as stack:
        yield stages.prepared(GPUSettings(dry_run=True, out=str(tmp_path / "out")), stack)


@pytest.mark.slow
def test_a_stage_that_does_not_end_says_what_it_waited_for(call: stages.Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a stage that is killed without a word, and one whose processes go on after it."""
    monkeypatch.setattr(stages, "GRACE", 0.0)
    others = children()

    def clock() -> float:
        return time.monotonic() + 600.0 * (importing in call.results.figures("tests")[-1].cells)

    importing = f"{CUT}importing the tests"
    monkeypatch.setattr(stages, "time", SimpleNamespace(**vars(time) | {"monotonic": clock}))
    stages.run("tests", 500.0, call)
    (_, cut) = call.results.figures("tests")
    assert cut.cells == (gpu_tests.ALL, importing, "")
    assert children() == others


@pytest.mark.slow
def test_a_stage_that_dies_is_a_failure_with_its_last_line(call: stages.Call) -> None:
    """Guards against a crash that looks like a lack of time."""
    stages.run("nonsense", 60.0, call)
    (whole,) = [line for line in call.results.lines()[0] if line.failed]
    assert (whole.stage, whole.what) == ("nonsense", WHOLE)
    assert whole.status.startswith("failed: exit code 2: error: gpu_nonsense: no such command")


def test_mistakes_are_found_before_anything_starts(tmp_path: Path) -> None:
    """Guards against GPU time wasted on a misspelt path or on a torch without CUDA, and figures of tiny models among
    real ones."""
    with pytest.raises(UserError, match="stages=attn: unknown stage attn; choose from text, gradients, tests"):
        wanted("attn")
    with pytest.raises(UserError, match="text=nowhere: no such file or folder"):
        gpu(GPUSettings(text="nowhere", out=str(tmp_path / "out")))
    with pytest.raises(UserError, match=r"pairs=.*: does not contain train.tsv"):
        gpu(GPUSettings(pairs=str(tmp_path), out=str(tmp_path / "out")))
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match=r"finds no CUDA GPU; --dry-run checks everything on a CPU"):
            gpu(GPUSettings(out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()
    Results(tmp_path).add("machine", Figure("copy", "4 TB/s"))
    with pytest.raises(UserError, match="contains the results of a real run"):
        gpu(GPUSettings(dry_run=True, out=str(tmp_path)))


def test_two_calls_wait_for_each_other(tmp_path: Path) -> None:
    """Guards against a call whose figures are those of a busy GPU, and temporary files of killed calls."""
    path = tmp_path / "lock"
    with (
        locked(path) as (_, temporary),
        pytest.raises(UserError, match="another call is running"),
        locked(path, seconds=0.3),
    ):
        pass
    assert not temporary.exists()
    left = tmp_path / "left"
    (left / "run").mkdir(parents=True)
    path.write_text(str(left), encoding="utf-8")  # as after a kill
    with locked(path):
        assert not left.exists()


def test_a_line_that_was_cut_off_costs_no_other_line(tmp_path: Path) -> None:
    """Guards against the loss of all figures because a process was killed while it wrote one."""
    results = Results(tmp_path)
    results.add("machine", Figure("copy", "4 TB/s"))
    whole = results.path.read_bytes()
    for end in range(1, len(whole)):
        results.path.write_bytes(whole + whole[:end])
        assert [figure.figure for figure in results.figures()] == ["4 TB/s"]
        results.add("maps", Figure("a map", "1 ms"))
        assert [figure.figure for figure in results.figures()] == ["4 TB/s", "1 ms"]


def test_a_figure_is_replaced_by_a_newer_one_only(tmp_path: Path) -> None:
    """Guards against a call that is cut off and hides what an earlier one has measured."""
    results = Results(tmp_path)

    def status_after(*statuses: str) -> str:
        for status in statuses:
            results.add("machine", Figure("copy", status=status))
        return results.figures()[0].status

    assert status_after(NO_TIME, f"{CUT}compiling") == f"{CUT}compiling"
    assert status_after(NO_TIME) == f"{CUT}compiling"
    assert status_after("failed: x") == "failed: x"
    assert status_after(f"{CUT}compiling", NO_TIME, "skipped: y") == "failed: x"
    assert status_after(MEASURED, f"{CUT}compiling", NO_TIME, "skipped: y") == MEASURED
    assert status_after("failed: z") == "failed: z"
    results.commit = "b"  # what has not been measured says nothing about another state of the project
    assert status_after(NO_TIME) == NO_TIME
    assert status_after(MEASURED) == MEASURED
    results.commit = "c"
    assert status_after(NO_TIME) == MEASURED


def plan_of(taken: list[str], broken: int = 0) -> Callable[[StageSettings], None]:
    """Return a stage of three measurements that notes which are taken; the second fails the first `broken` times."""
    failures = iter([True] * broken)

    def figure(name: str) -> Figure:
        taken.append(name)
        if name == "b" and next(failures, False):
            raise ValueError("two\nlines")
        return Figure(name, "1", facts={"rate": 1.0})

    @stage
    def machine(settings: StageSettings) -> Iterator[Measurement]:
        for name in "abc":
            yield single(name, lambda name=name: figure(name), 1.0)  # type: ignore[misc]

    return machine


def test_a_second_call_measures_what_is_missing_or_has_failed(tmp_path: Path) -> None:
    """Guards against time spent twice on one figure, a failure that ends the whole stage, and one that is repeated for
    ever."""
    taken: list[str] = []
    run, results = plan_of(taken, broken=9), Results(tmp_path)
    for expected, complete in (("abc", False), ("abcb", True), ("abcb", True)):
        run(StageSettings(out=str(tmp_path)))
        assert "".join(taken) == expected
        assert results.is_complete("machine", "") is complete
    assert [figure.status for figure in results.figures()] == [
        MEASURED,
        "failed: ValueError: two lines",
        MEASURED,
        "complete",
    ]
    assert not results.is_complete("machine", "nanogpt")  # another input: rows that were skipped can be measured
    results.commit = "b"
    assert not results.is_complete("machine", "")
    run(StageSettings(out=str(tmp_path), commit="b", until=time.time() + 0.5))
    marked = table(results.figures())
    assert "| machine | a | 1 |  |  |" in marked  # no time left: the figure of the other commit, marked
    assert "| machine | b | not measured: no time left |  | b |" in marked
    run(StageSettings(out=str(tmp_path), commit="b"))
    assert "".join(taken) == "abcbabc"
    assert "commit" not in table(results.figures())


def test_every_change_of_the_program_is_another_commit(tmp_path: Path) -> None:
    """Guards against figures of uncommitted changes that count as those of the commit, and machines without git."""
    (tmp_path / "package").mkdir()
    found = []
    for file in ("package/__init__.py", "package/code.py", "package/settings.yaml", "README.md"):
        (tmp_path / file).touch()
        found.append(commit(tmp_path))
    (tmp_path / "package" / "code.py").write_text("changed = True")
    found.append(commit(tmp_path))
    assert [found.index(one) for one in found] == [0, 1, 2, 2, 4]
    assert commit() == commit() != found[0]


def test_what_may_hang_or_fail_again_comes_last(tmp_path: Path) -> None:
    """Guards against a kernel that hangs, and in every call costs all measurements behind it."""
    taken: list[str] = []
    run, results = plan_of(taken), Results(tmp_path)
    for _ in range(2):
        results.add("machine", Figure.underway("a", "starting"))
    results.add("machine", Figure.underway("b", "starting"))
    run(StageSettings(out=str(tmp_path)))
    assert "".join(taken) == "bca"


def test_a_gpu_that_no_longer_answers_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against one illegal memory access for which all later measurements of the process fail."""
    taken: list[str] = []

    def synchronize() -> None:
        if taken and taken[-1] == "b":
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(one_stage, "synchronize", synchronize)
    run, results = plan_of(taken, broken=9), Results(tmp_path)
    for expected, complete in (("ab", False), ("abcb", True)):
        run(StageSettings(out=str(tmp_path)))
        assert "".join(taken) == expected
        assert results.is_complete("machine", "") is complete
    assert [figure.what for figure in results.figures() if figure.failed] == ["b"]


@pytest.mark.slow
def test_contenders_of_another_machine_are_measured_again_beside_the_missing_ones(tmp_path: Path) -> None:
    """Guards against the ratio of two GPUs reported as that of two programs, and a second measurement on one GPU."""
    contenders = [
        Contender(name, "tests.benchmarks.contenders:holding", {"megabytes": 1}, facts={"rows": 1.0}) for name in "ab"
    ]

    def names(machine: str, wanted: Sequence[str]) -> list[str]:
        settings = StageSettings(out=str(tmp_path), machine=machine, dry_run=True)
        found: list[str] = []

        def report(figure: Figure) -> None:
            settings.results.add("training", figure)
            found.extend([figure.what] if figure.measured else [])

        together(contenders, lambda row: Figure(row.name, facts={"rate": row.rate}), settings).take(wanted, report)
        return sorted(set(found))

    assert names("H100", ["a"]) == ["a"]
    assert names("H100", ["b"]) == ["b"]
    Results(tmp_path, "H200").add("training", Figure("a"))
    assert names("H100", ["b"]) == ["a", "b"]


def test_comparisons_are_of_one_machine_commit_and_batch_and_come_from_all_calls() -> None:
    """Guards against a ratio of two machines or of two batch sizes, and one that is missing because the rival was
    measured later."""
    row = Row("124M, ours, batch 2 x 9", True, 1e14, rates=[3.0], step_milliseconds=[1000.0], peak_memory=2)
    facts = training_line(row).facts | {"operations": [4e14, 2e14]}
    ours = Figure(row.name, beside="MFU 40 %", facts=facts, machine="H100", commit="a")
    rivals = [
        Figure(f"124M, nanoGPT, batch {batch} x 9", "", "", MEASURED, {"rate": 2, "memory": 4}, "", machine, commit)
        for batch, machine, commit in ((2, "H200", "a"), (2, "H100", "b"), (4, "H100", "a"), (2, "H100", "a"))
    ]
    peak = Figure("product", facts={"flops": 8e14}, machine="H100")
    assert comparison(ours, [ours, *rivals[:3]]) == "MFU 40 %"
    assert comparison(ours, [ours, *rivals, peak]) == ("MFU 40 %, 50/25 % of peak, 1.50 x nanoGPT, 0.50 x its memory")


def test_a_training_that_learns_nothing_is_seen_at_once(tmp_path: Path) -> None:
    """Guards against the minute of training whose loss fell by half a percent, with exit code 0 (torch 2.11)."""
    log = tmp_path / "log.txt"
    assert Progress.read(tmp_path) == Progress()

    def step(number: int, loss: str, norm: str) -> str:
        progress = f"step {number}/2500   4.0 % of 1 min"
        return f"{progress} | loss {loss} | lr 1.00e-03 | norm {norm} | 15 ms | 1.1M tok/s | epoch 0.10 | eta 1:00\n"

    log.write_text(step(100, "4.3217", "0.00"), encoding="utf-8")
    assert Progress.read(tmp_path).problem == ""
    log.write_text(step(100, "4.3217", "0.00") + step(200, "4.3", "0.00") + step(300, "4.2", "1.0")[:40], "utf-8")
    assert Progress.read(tmp_path).problem == "learns nothing: gradient norm 0.00 in every line, up to step 200"
    record = '{"step": 200, "val/loss": 4.29}\n'
    (tmp_path / "metrics.jsonl").write_text(record + record[:9], encoding="utf-8")
    nothing = "learns nothing: training loss 4.3217 at step 100, 4.2980 at the end"
    for last, shortfall in (("4.2980", nothing), ("2", "")):
        log.write_text(step(100, "4.3217", "0.70") + step(200, last, "1.04"), encoding="utf-8")
        progress = Progress.read(tmp_path)
        assert (progress.problem, progress.shortfall) == ("", shortfall)
    assert progress.shown == "step 200, loss 2.0000, gradient norm 1.04; validation loss 4.2900 at step 200"


def test_a_shorter_training_is_no_substitute_for_the_wanted_one() -> None:
    """Guards against two minutes of training reported as five, and five minutes that are never tried again."""

    def names(seconds: float, *settled: str) -> list[str]:
        settings = StageSettings(text="t", pairs="p", until=time.time() + seconds)
        return [one.names[0].split(", ")[1] for one in lengths(TRANSLATION, settings, {*settled})]

    five, two = "5 minutes of training", "2 minutes of training"
    assert names(500) == [five]
    assert names(200) == [two, five]
    assert names(30) == [five]
    assert names(200, f"tatoeba, {two}") == [five]
    assert names(500, f"tatoeba, {five}") == []
    for recipe, name in ((TEXT, "text"), (TRANSLATION, "translation")):
        assert recipe.seconds(recipe.minutes[0]) + 10 < BUDGETS[name]  # of the start


@pytest.mark.parametrize(("factor", "error"), [(0.0, "1"), (float("nan"), "inf")])
def test_a_gradient_of_zero_or_nan_is_no_rounding(factor: float, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a comparison that a missing gradient passes."""
    gradients_of = Weights.gradients_of

    def wrong(weights: Weights, loss: torch.Tensor, divisor: float) -> list[torch.Tensor]:
        first, *others = gradients_of(weights, loss, divisor)
        return [factor * first, *others]

    monkeypatch.setattr(Weights, "gradients_of", wrong)
    with pytest.raises(ArithmeticError, match=rf"^eager {error} \(.*weight\); at most 0.01 is rounding$"):
        compared("", "gpt", torch.float32, compiling=False)


GPU_TESTS = """
import os, time
import pytest

pytestmark = pytest.mark.gpu

@pytest.mark.parametrize("letter", ["a", "b"])
def test_passes(letter):
    with open(os.environ["RAN"], "a") as file:
        file.write(letter)

def test_passes_too():
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

def test_hangs():
    time.sleep(float(os.environ["HANGS"]))

def test_ruins_the_gpu():
    import benchmarks.gpu.stage

    def synchronize():
        raise RuntimeError("CUDA error")

    benchmarks.gpu.stage.synchronize = synchronize
    synchronize()
"""


@pytest.mark.slow
def test_the_result_of_each_test_is_stored_at_once_and_passed_tests_do_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against a hanging test that hides the results of the others, one that ruins the GPU for the others, and
    failures without their reason, or that stay in the table when they are mended."""
    folder, ran = tmp_path / "gpu", tmp_path / "ran"
    folder.mkdir()
    (folder / "test_some.py").write_text(GPU_TESTS, encoding="utf-8")
    monkeypatch.setenv("RAN", str(ran))

    @stage
    def tests(settings: StageSettings) -> Iterator[Measurement]:
        yield Measurement((gpu_tests.ALL,), lambda _, report: gpu_tests.run(folder, settings, report), 0.0)

    def run(hangs: bool = False) -> tuple[Figure, dict[str, str]]:
        monkeypatch.setenv("HANGS", "600" if hangs else "0")
        settings = StageSettings(out=str(tmp_path), dry_run=True)

        def stop() -> None:
            while not any(figure.what.endswith("test_hangs") for figure in settings.results.figures()):
                time.sleep(0.1)
            settings.deadline = time.monotonic()

        if hangs:
            threading.Thread(target=stop, daemon=True).start()
        tests(settings)
        by_name = {figure.what: figure for figure in settings.results.figures()}
        each = {Path(name).name.removeprefix("test_some.py::"): one.status for name, one in by_name.items()}
        return by_name[gpu_tests.ALL], each

    cut, each = run(hangs=True)
    assert {name: status for name, status in each.items() if name.startswith("test_")} == {
        "test_passes[a]": MEASURED,
        "test_passes[b]": MEASURED,
        "test_passes_too": MEASURED,
        "test_fails": "failed: AssertionError: as it should assert 1 == 2",
        "test_breaks": "failed: ValueError: in the teardown",
        "test_skips": "skipped: needs two GPUs",
        "test_hangs": f"{CUT}running",
    }
    assert cut.status == f"{CUT}running tests: 3 passed, 2 failed, 1 skipped, 1 not measured"
    (folder / "test_broken.py").write_text("import nowhere", encoding="utf-8")
    broken, each = run()
    assert each["test_hangs"] == MEASURED
    assert each["test_ruins_the_gpu"] == "failed: RuntimeError: CUDA error"
    assert each["test_broken.py, import"] == "failed: E ModuleNotFoundError: No module named 'nowhere'"
    # What had failed before comes last: in the next process, or not in this run.
    assert broken.status.endswith("; the next run repeats the 2 that failed")
    (folder / "test_broken.py").write_text("", encoding="utf-8")
    whole, each = run()
    assert (whole.status, whole.figure) == (MEASURED, "4 passed, 3 failed, 1 skipped")
    assert each["test_broken.py, import"] == MEASURED
    assert "".join(sorted(ran.read_text())) == "ab"  # not again


def test_a_row_for_each_file_of_tests_and_for_each_failure() -> None:
    """Guards against a table of 200 passed tests in which nobody finds the one that failed, and figures of two machines
    that look like those of one."""
    found = [
        Figure(f"t.py::{name}", status=status, stage="tests", facts={"file": "t.py"})
        for name, status in (("a", MEASURED), ("b", MEASURED), ("c", "failed: 0.2"), ("d", f"{CUT}running"))
    ]
    assert table(found).splitlines()[2:] == [
        "| tests | t.py | 2 passed, 1 failed, 1 not measured |  |",
        "| tests | t.py::c | failed: 0.2 |  |",
        f"| tests | t.py::d | {CUT}running |  |",
    ]
    first, second = Figure("a", "1 ms", stage="maps"), Figure("b", status="skipped: no | here", machine="H200")
    cells = ["| maps | a | 1 ms |  |  |", "|  | b | skipped: no / here |  | H200 |"]
    assert table([first, second]).splitlines()[2:] == cells


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
    shown = line(Case("flash", 64, True, False), {4096: (5e14, 4e14), 512: (2e14, 1e14)}, "", [])
    assert shown.figure == "512 200/100, 4k 500/400 TFLOP/s"
    assert shown.facts["operations"] == [5e14, 4e14]


def test_the_pages_show_the_newest_measurement_and_no_dry_run(tmp_path: Path) -> None:
    """Guards against figures of a tiny model on a CPU in docs/gpu.md."""
    assert gpu_tables(tmp_path) == NOTHING_ON_A_GPU
    for name, dry_run in (("gpu-2026-01-01", False), ("gpu-2026-01-02", True)):
        (tmp_path / name).mkdir()
        Results(tmp_path / name, "H200", "d4be57f", dry_run).add("maps", Figure("a map", f"of {name}", "much"))
    (tmp_path / "gpu-2026-01-03").mkdir()
    newest = Results(tmp_path / "gpu-2026-01-03", "H200", "d4be57f")
    newest.add("maps", Figure(WHOLE, status=NO_TIME))
    newest.add("machine", Figure("copy", "4 TB/s"))
    shown = gpu_tables(tmp_path)
    assert "### Recording attention maps" in shown
    assert "| a map | of gpu-2026-01-01 | much |" in shown
    assert "| copy | 4 TB/s |" in shown
    assert shown.endswith("; H200; d4be57f.")
    assert "gpu-2026-01-02" not in shown


def test_drawn_numbers_follow_zipfs_law() -> None:
    """Guards against uniformly drawn tokens, which would update embedding rows more evenly than a text does."""
    drawn = zipf_ids(1000, 400_000)
    counts = np.bincount(drawn, minlength=1000)
    assert drawn.max() == 999
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.1)
    assert (drawn == zipf_ids(1000, 400_000)).all()
