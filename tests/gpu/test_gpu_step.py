"""The training step on a GPU. Run with `pytest -m gpu`, or see `tests.gpu.device`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.conftest import TINY
from tests.gpu.device import CPU, DEVICE, marks, needs_cuda
from tests.gpu.small_trainer import losses, trainer
from training.checkpoints.files import load_weights
from training.checkpoints.loading import checkpoint_path
from training.hardware import compilation
from training.hardware.gpu_attention import kernels_of
from training.run_folder.log import RunLog

pytestmark = marks

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TASKS = ("gpt", "translate")


def largest_gap(one: Tensor, other: Tensor) -> float:
    """Return the largest difference between means over ten steps."""
    return float((one - other).unflatten(0, (-1, 10)).mean(dim=1).abs().max())


@pytest.mark.parametrize("kind", ["adamw", "muon", "scion"])
def test_the_loss_curve_is_that_of_a_cpu_in_float32(kind: str) -> None:
    """Guards against different training on a GPU: wrong gradient scale, lost master weights, mixed batches."""
    reference = losses(trainer(CPU, torch.float32, kind=kind), 200)
    noise = largest_gap(losses(trainer(CPU, torch.float32, order=2, kind=kind), 200), reference)
    assert float(reference[:10].mean() - reference[-10:].mean()) > 5 * noise  # the loss decreases
    for choice in ("off", "on"):
        each = trainer(DEVICE, torch.bfloat16, kind=kind, compile=choice)
        assert largest_gap(losses(each, 200), reference) < noise
        assert each.loss.compiled == (choice == "on")


@pytest.mark.parametrize("graphs", [False, pytest.param(True, marks=needs_cuda)])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_compiled_step_equals_the_eager_one(graphs: bool, recompute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a CUDA graph that reads the weights from before the update, gradients that are zero or overwritten
    by the next micro-batch, and a lost loss."""
    if not graphs:
        monkeypatch.setattr(compilation, "_GRAPH_PARAMETERS", 0)
    eager = trainer(DEVICE, torch.float32, accumulate=2)
    compiled = trainer(DEVICE, torch.float32, accumulate=2, compile="on", recompute=recompute)
    torch.testing.assert_close(losses(compiled, 20), losses(eager, 20), rtol=2e-3, atol=0)
    assert compiled.loss.compiled, "the compilation was given up"
    with torch.profiler.profile() as seen:  # also records the CPU's calls of the driver
        compiled.step()
        compiled.queue.drain()
    assert any("cudaGraphLaunch" in event.key for event in seen.key_averages()) == graphs


def test_a_compiled_translator_equals_the_eager_one() -> None:
    """Guards against code for dynamic lengths that reuses the masks of one batch for all batches."""
    eager, compiled = (trainer(DEVICE, torch.float32, "translate", compile=choice) for choice in ("off", "on"))
    torch.testing.assert_close(losses(compiled, 10), losses(eager, 10), rtol=2e-3, atol=0)
    assert compiled.loss.compiled, "the compilation was given up"


@needs_cuda  # on a CPU with a stand-in: tests/training/hardware/test_other_devices.py
@pytest.mark.parametrize("compile", ["off", "on"])
@pytest.mark.parametrize("kind", ["adamw", "muon", "scion"])
@pytest.mark.parametrize("task", TASKS)
def test_no_step_waits_for_the_gpu(task: str, kind: str, compile: str, tmp_path: Path) -> None:
    """Guards against a value read in the middle of a step, which blocks the CPU while the GPU's queue runs empty."""
    each = trainer(DEVICE, torch.bfloat16, task, compile=compile, kind=kind, ema=0.99, dropout=0.1, accumulate=2)
    each.run, each.log = tmp_path, RunLog(tmp_path, 0)
    for _ in range(5):
        each.step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            each.step()
        each.report_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert each.loss.compiled == (compile == "on")
    each.catch_up()
    each.log.close()
    assert re.search(r"step 9/.* loss [1-9]", (tmp_path / "log.txt").read_text("utf-8"))


@needs_cuda
def test_the_cpu_is_two_steps_ahead_and_no_more(tmp_path: Path) -> None:
    """Guards against minutes of queued work when the time limit is reached."""
    each = trainer(DEVICE, torch.bfloat16)
    each.run, each.log = tmp_path, RunLog(tmp_path, 0)
    for _ in range(10):
        each.step()
    assert len(each.queue.ends) == 2
    before = each.progress.seconds
    each.catch_up()
    each.log.close()
    assert not each.queue.ends
    assert each.progress.seconds > before


@needs_cuda
@pytest.mark.parametrize("task", TASKS)
def test_training_attention_runs_fused_kernels_alone(task: str) -> None:
    """Guards against a mask or a memory layout of the real model that the check at start-up does not cover."""
    each = trainer(DEVICE, torch.bfloat16, task)
    each.step()
    names = kernels_of(each.step)
    assert names is not None
    assert any(re.search("flash|fmha|sdpa", name) for name in names), names
    assert not any(re.search("softmax_warp|SoftMaxForward", name) for name in names), names


@needs_cuda
def test_recomputation_takes_less_memory() -> None:
    """Guards against a setting that costs a third more time without saving memory."""
    peaks = []
    for recompute in (False, True):
        each = trainer(DEVICE, torch.bfloat16, recompute=recompute)
        each.step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        each.step()
        peaks.append(torch.cuda.max_memory_allocated() - before)
        del each
    assert peaks[1] < peaks[0]


@needs_cuda  # a CPU's runs always repeat
@pytest.mark.parametrize("task", TASKS)
def test_a_deterministic_run_repeats_to_the_bit(program: Run, tmp_path: Path, task: str) -> None:
    """Guards against a kernel whose sums depend on timing, or that raises an error in deterministic mode."""
    result = []
    for name in ("one", "two"):
        done = program(
            "train.py",
            *TINY,
            f"task={task}",
            f"name={name}",
            "trainer.device=cuda",
            "trainer.deterministic=true",
            "model.dropout=0.1",
            "trainer.test=false",
            "trainer.compile=on",
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        assert compilation.UNCOMPILED not in done.stdout
        result.append(load_weights(checkpoint_path(tmp_path / "runs" / name, "last")))
    assert all(torch.equal(tensor, result[1][key]) for key, tensor in result[0].items())


def test_every_line_of_the_log_is_written_though_figures_come_late(in_process: Run) -> None:
    """Guards against a missing line for the last step before an evaluation, or for the very last step."""
    done = in_process("train.py", *TINY, f"trainer.device={DEVICE.type}", "trainer.test=false")
    assert done.returncode == 0, done.stderr
    lines = [re.match(r"(validation at )?step (\d+)", line) for line in done.stdout.splitlines()]
    told = [(int(line[2]), bool(line[1])) for line in lines if line]
    assert told == [(1, False), (2, False), (3, False), (3, True), (4, False), (5, False), (6, False), (6, True)]
    assert all(before <= after for before, after in pairwise(told))
