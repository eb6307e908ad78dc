"""Compute, master and averaged weights."""

import contextlib
import sys
from collections.abc import Callable
from types import FrameType

import pytest
import torch
from torch import Tensor, nn

from training.optimizer import weights_gradients_ema as module
from training.optimizer.weights_gradients_ema import Weights


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(16, 16)


def test_updates_too_small_for_bf16_are_not_lost() -> None:
    """Guards against bf16 training without master weights, where 1 + 1e-4 is 1 and the model stops learning."""
    model = nn.Linear(4, 4, bias=False)
    nn.init.ones_(model.weight)
    weights = Weights(model, torch.bfloat16, ema=0.0)
    for _ in range(100):
        with torch.no_grad():
            weights.masters[0].add_(1e-4)
        weights.refresh(weights.averaging_weight())
    assert weights.saved_weights()["weight"].mean().item() == pytest.approx(1.01, abs=1e-5)
    assert model.weight.dtype == torch.bfloat16
    assert model.weight.float().mean().item() == pytest.approx(1.01, abs=4e-3)


def test_gradients_of_micro_batches_add_up_in_float32() -> None:
    """Guards against accumulation in bf16, where 256 + 1 is 256."""
    model = linear()
    weights = Weights(model, torch.bfloat16, ema=0.0)
    for value in (256.0, 1.0, 1.0):
        weights.add([torch.full_like(parameter, value) for parameter in model.parameters()])
    assert all(set(gradient.flatten().tolist()) == {258.0} for gradient in weights.gradients)
    weights.gradient_is_old = True  # as Optimizer.step sets it
    weights.add([torch.ones_like(parameter) for parameter in model.parameters()])
    assert all(set(gradient.flatten().tolist()) == {1.0} for gradient in weights.gradients), (
        "an update begins from zero"
    )


def test_in_float32_the_models_own_parameters_are_the_masters() -> None:
    """Guards against an unnoticed second copy that doubles memory or, worse, an optimiser that updates the wrong
    copy."""
    model = linear()
    masters = Weights(model, torch.float32, ema=0.0).masters
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(masters, model.parameters(), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_average_follows_the_recurrence_and_only_computes_inside_the_block(dtype: torch.dtype) -> None:
    """Guards against training that continues with the evaluated weights."""
    model = linear()
    weights = Weights(model, dtype, ema=0.9)
    expected = weights.masters[0].detach().clone()
    for update in range(1, 6):
        with torch.no_grad():
            for master in weights.masters:
                master.add_(1.0)
        weights.refresh(weights.averaging_weight())
        expected.lerp_(weights.masters[0].detach(), 1 - min(0.9, (1 + update) / (10 + update)))
    torch.testing.assert_close(weights.saved_weights()["weight"], expected)
    before = [p.detach().clone() for p in model.parameters()]
    with weights.averaged():
        torch.testing.assert_close(model.weight.float(), expected, atol=4e-2, rtol=1e-2)
        assert not torch.equal(model.weight, before[0])
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_saved_and_restored_weights_are_the_same_to_the_last_bit(dtype: torch.dtype, ema: float) -> None:
    """Guards against a resume from rounded or averaged weights."""
    model = linear()
    weights = Weights(model, dtype, ema)
    with torch.no_grad():
        for master in weights.masters:
            master.add_(torch.randn_like(master))
    weights.refresh(weights.averaging_weight())
    best = {name: tensor.clone() for name, tensor in weights.saved_weights().items()}
    other = nn.Linear(16, 16)
    restored = Weights(other, dtype, ema)
    restored.load_state_dict(weights.state_dict(), best)
    copies = [*weights.masters, *weights.average, *model.parameters()]
    restored_copies = [*restored.masters, *restored.average, *other.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(copies, restored_copies, strict=True))


class Struck(BaseException):
    """Raised by the simulated signal."""


def struck(action: Callable[[], None], instant: int) -> bool:
    """Run `action` and raise at the given bytecode of the swap; return whether the swap has that many bytecodes."""
    passed = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal passed
        passed += event == "opcode"
        if passed == instant:
            raise Struck
        return count

    def enter(frame: FrameType, event: str, argument: object) -> object:
        if frame.f_code.co_filename not in (module.__file__, contextlib.__file__):
            return None
        frame.f_trace_opcodes = True
        return count

    sys._getframe().f_trace_opcodes = True  # Python 3.12.1 ignores the first use if it comes after settrace
    sys.settrace(enter)
    try:
        action()
    except Struck:
        pass  # not `suppress`, which is in contextlib
    finally:
        sys.settrace(None)
    return passed >= instant


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_exception_at_any_point_of_the_swap_leaves_the_weights_as_they_are(
    dtype: torch.dtype, interrupted: bool
) -> None:
    """Guards against a signal during either swap of the average that saves the average as master weights."""
    weights = Weights(linear(), dtype, ema=0.9)
    weights.flat_masters.add_(1.0)
    weights.refresh(weights.averaging_weight())

    def copies() -> list[Tensor]:
        return [weights.flat_masters.clone(), *(average.clone() for average in weights.average)]

    def evaluate() -> None:
        with weights.averaged():
            if interrupted:
                raise Struck

    before, instant = copies(), 0
    while struck(evaluate, instant := instant + 1):
        assert all(torch.equal(a, b) for a, b in zip(before, copies(), strict=True)), instant
    assert instant > 50


@pytest.mark.parametrize(("value", "finite"), [(3e38, True), (float("nan"), False), (float("inf"), False)])
def test_one_value_that_is_not_finite_is_found(value: float, finite: bool) -> None:
    """Guards against a checkpoint of weights that have diverged, and against large finite ones called diverged."""
    weights = Weights(torch.nn.Linear(70, 50), torch.float32, 0.0)
    weights.flat_masters[1234] = value
    weights.flat_masters[1235] = -1.0
    assert weights.finite() == finite
    weights.flat_masters[1234] = -value
    assert weights.finite() == finite
