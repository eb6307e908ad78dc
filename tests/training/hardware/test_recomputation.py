"""Activation checkpointing: the same gradients with less memory."""

from __future__ import annotations

import shutil
import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.hardware.compilation import compiled_loss
from training.hardware.recomputation import recompute_activations
from training.loss import batch_loss

SHAPE = ModelConfig(layers=4, heads=2, width=32, context=64, dropout=0.2, attention_dropout=0.1)
TARGETS = torch.randint(1, 50, (4, 24), generator=torch.Generator().manual_seed(0))


class MemoryPeak(TorchDispatchMode):
    """Return the peak number of bytes in tensors created inside the context."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, Tensor):
                storage = each.untyped_storage()
                if storage.data_ptr() not in self.alive:
                    self.alive[storage.data_ptr()] = storage.nbytes()
                    weakref.finalize(storage, self.alive.pop, storage.data_ptr(), None)
        self.peak = max(self.peak, sum(self.alive.values()))
        return result


def model_and_inputs(task: str, shape: ModelConfig = SHAPE) -> tuple[GPT | EncoderDecoder, tuple[Tensor | None, ...]]:
    torch.manual_seed(1)
    if task == "gpt":
        return GPT(shape, 50).train(), (TARGETS,)
    mask = torch.ones(4, 16, dtype=torch.bool)
    mask[1, 9:] = False
    return EncoderDecoder(shape, 50, 50, shared=True).train(), (TARGETS[:, :16], TARGETS, mask)


def gradients(task: str, *, recompute: bool, compiled: bool = False) -> list[Tensor]:
    """Return the gradients of all parameters for one step with dropout."""
    model, inputs = model_and_inputs(task, replace(SHAPE, layers=1) if compiled else SHAPE)
    if recompute:
        recompute_activations(model)
    loss = compiled_loss(model) if compiled else batch_loss
    torch.manual_seed(2)
    loss(model, inputs, TARGETS, 0.0).backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_gradients_are_the_same_with_dropout_on(task: str) -> None:
    """Guards against different dropout masks in the second forward pass."""
    kept = gradients(task, recompute=False)
    assert len(kept) == len(list(model_and_inputs(task)[0].parameters()))
    for one, other in zip(kept, gradients(task, recompute=True), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_memory_is_saved(task: str) -> None:
    """Guards against a setting that recomputes activations and stores them too."""
    peaks = []
    for recompute in (False, True):
        model, inputs = model_and_inputs(task, replace(SHAPE, dropout=0.0, attention_dropout=0.0))
        if recompute:
            recompute_activations(model)
        with MemoryPeak() as memory:
            batch_loss(model, inputs, TARGETS).backward()
        peaks.append(memory.peak)
    assert peaks[1] < 0.6 * peaks[0]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_gradients_are_the_same() -> None:
    """Guards against a dropout seed that compiled code draws again in the second pass."""
    kept = gradients("gpt", recompute=False, compiled=True)
    for one, other in zip(kept, gradients("gpt", recompute=True, compiled=True), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_evaluation_and_parameters_do_not_change(task: str) -> None:
    """Guards against parameter names that a run without the setting cannot load."""
    model, inputs = model_and_inputs(task)
    model.eval()
    with torch.no_grad():
        names, before = list(model.state_dict()), model(*inputs)
        recompute_activations(model)
        assert list(model.state_dict()) == names
        assert torch.equal(model(*inputs), before)


def test_without_gradients_a_block_is_run_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards beam search during training: checkpointing reads the random state, which a CUDA graph forbids."""
    model, inputs = model_and_inputs("translate")
    expected = model.eval()(*inputs)
    recompute_activations(model)
    monkeypatch.setattr(torch.random, "get_rng_state", lambda: pytest.fail("asked for"))
    monkeypatch.setattr(torch, "get_rng_state", lambda: pytest.fail("asked for"))
    with torch.no_grad():
        torch.testing.assert_close(model(*inputs), expected, rtol=1e-5, atol=1e-6)
