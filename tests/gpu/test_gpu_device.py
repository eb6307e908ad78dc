"""The choice of a GPU, the operations used on it, and the error when its memory is full. Run with `pytest -m gpu`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from attention_maps.record.example import Example
from configs.compose import compose_config
from configs.errors import UserError
from data.batches.batch import Batch
from generation.config import SamplingConfig
from generation.cuda.sampling import generate_with_graphs
from interpretability.recorder import record
from model.config import ModelConfig
from model.gpt import GPT
from tests.conftest import TINY
from tests.gpu.device import CPU, DEVICE, marks, needs_cuda
from tests.gpu.small_trainer import trainer
from train import train
from training.config import TrainConfig
from training.evaluation.held_out_loss import held_out_loss
from training.hardware.device import choose_device, choose_hardware
from training.hardware.gpu_attention import evaluation_kernels
from training.hardware.reproducibility import random_state, restore_random_state
from training.new_or_resumed_run import to_dataclass

pytestmark = marks

Run = Callable[..., "subprocess.CompletedProcess[str]"]
several = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_losses_and_maps_are_those_of_a_cpu(task: str) -> None:
    """Guards against a mask or a position that a GPU's kernels read differently, and memory that is read before the GPU
    has written it."""
    translates = task == "translate"
    example = Example([1, 2, 3], list("abc"), [2, 3, 4], list("bcd"), *(([5, 6], list("ef")) if translates else ()))
    result = []
    for device in (CPU, DEVICE):
        each = trainer(device, torch.float32, task)
        batches: list[Batch] = [each.stream.next_batch().to(device) for _ in range(3)]
        with each.evaluating():
            loss = held_out_loss(each.model, batches, 100).per_token
            (sample,) = record(each.model, [example], {0}, 0).samples
        result.append((loss, sample.weights))
    (expected, true_maps), (loss, maps) = result
    assert loss == pytest.approx(expected, rel=1e-4)
    for place, true in true_maps.items():
        np.testing.assert_allclose(maps[place], true, atol=2e-3)  # float16


@needs_cuda
def test_a_gpu_becomes_the_current_one_and_is_named(program: Run) -> None:
    """Guards against `cuda` without an index, which refers to another GPU after a change of the current device."""
    hardware = choose_hardware("cuda", "auto", None)
    assert hardware.device == torch.device("cuda:0")
    assert "(cuda:0)" in hardware.description
    assert torch.cuda.current_device() == 0
    count = torch.cuda.device_count()
    present = "the only CUDA GPU is cuda:0" if count == 1 else f"the CUDA GPUs are cuda:0 to cuda:{count - 1}"
    done = program("train.py", *TINY, f"trainer.device=cuda:{count}")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: trainer.device=cuda:{count}: {present};")


@needs_cuda
def test_random_numbers_go_on_after_a_resume_on_a_machine_with_more_gpus() -> None:
    """Guards against dropout that restarts because a checkpoint has the states of a different number of GPUs."""
    device = choose_device("cuda")
    saved = random_state(device)
    expected = torch.rand(4, device=device)
    older = {"cpu": saved["cpu"], "cuda": saved["cuda"] * 8}
    for state in (saved, older):
        restore_random_state(state, device)
        assert torch.equal(torch.rand(4, device=device), expected)


@pytest.fixture
def second() -> Iterator[torch.device]:
    """Make the second GPU the current device."""
    yield choose_device("cuda:1")
    torch.cuda.set_device(0)


@several
def test_all_of_a_run_is_on_the_gpu_that_was_asked_for(second: torch.device) -> None:
    """Guards against kernels, CUDA graphs, events or buffers on the first GPU, whose memory another process may
    need."""
    before = torch.cuda.memory_reserved(0)
    each = trainer(second, torch.bfloat16, compile="on", dropout=0.1)
    for _ in range(5):
        each.step()
    each.report_step()
    assert each.report is not None
    each.report.figures.values()
    each.queue.drain()
    model = GPT(ModelConfig(layers=2, heads=2, width=64, context=64), 50).to(second).eval()
    with evaluation_kernels(second):
        texts = list(generate_with_graphs(model, [[1, 2]] * 3, SamplingConfig(max_tokens=20)))
    assert len(texts) == 20
    assert torch.cuda.memory_allocated(1) > 0
    assert torch.cuda.memory_reserved(0) == before


@several
def test_a_run_moves_from_one_gpu_to_another(program: Run) -> None:
    """Guards against a checkpoint or a program that requires the first GPU."""
    assert program("train.py", *TINY, "name=run", "trainer.device=cuda:1", timeout=600).returncode == 0
    resumed = program("train.py", "resume=runs/run", "trainer.device=cuda:0", "trainer.steps=9", timeout=600)
    assert resumed.returncode == 0, resumed.stderr
    written = program("generate.py", "run=runs/run", "prompt=The", "max_tokens=5", "device=cuda:1", timeout=600)
    assert written.returncode == 0, written.stderr


@needs_cuda
def test_a_full_gpu_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    """Guards against a traceback, and a run folder that must be deleted by hand."""
    settings = [
        *TINY,
        f"runs={tmp_path / 'runs'}",
        f"data.cache={tmp_path / '.cache'}",
        "model.width=1024",
        "model.heads=16",
        "model.layers=8",
    ]
    composed, problems = compose_config("train", TrainConfig, [*settings, "trainer.device=cuda"])
    assert composed is not None
    assert not problems
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.001)
    try:
        with pytest.raises(UserError, match=r"^out of memory \(tried to allocate .*\): lower trainer\.batch_size"):
            train(to_dataclass(composed, settings))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert not (tmp_path / "runs").exists()
