"""AdamW compared with torch.optim.AdamW."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from tests.conftest import ROOT, environment
from training.optimizer.adamw import AdamW
from training.optimizer.update import update_groups

SETTINGS = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-8}


def groups() -> list[dict]:
    """Return two groups of the same parameters."""
    torch.manual_seed(0)
    shapes = [[(5, 3), (2, 4)], [(3,), (7,)]]
    parameters = [[torch.nn.Parameter(torch.randn(shape)) for shape in group] for group in shapes]
    return [{"params": each, "weight_decay": decay} for each, decay in zip(parameters, (0.1, 0.0), strict=True)]


def steps(optimizer: AdamW | torch.optim.AdamW, first: int, last: int) -> list[Tensor]:
    """Run steps with reproducible gradients and a changing learning rate."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 / (1 + step)
        update_groups(optimizer) if isinstance(optimizer, AdamW) else optimizer.step()
    return [p.detach().clone() for p in parameters]


@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_those_of_torch_to_the_last_bit(fused: bool) -> None:
    """Guards against a different decay, bias correction or step count, and runs that cannot be reproduced."""
    ours, theirs = AdamW(groups(), fused=fused, **SETTINGS), torch.optim.AdamW(groups(), fused=fused, **SETTINGS)  # type: ignore[arg-type]
    assert all(map(torch.equal, steps(ours, 0, 5), steps(theirs, 0, 5)))


def test_a_saved_state_is_gone_on_with() -> None:
    """Guards against moments that are reset or assigned to another parameter."""
    whole, saver = AdamW(groups(), fused=True, **SETTINGS), AdamW(groups(), fused=True, **SETTINGS)  # type: ignore[arg-type]
    expected = steps(whole, 0, 5)
    halfway = steps(saver, 0, 3)
    restored = AdamW(groups(), fused=True, **SETTINGS)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter, value in zip(
            (p for group in restored.param_groups for p in group["params"]), halfway, strict=True
        ):
            parameter.copy_(value)
    restored.load_state_dict(copy.deepcopy(saver.state_dict()))
    assert all(map(torch.equal, steps(restored, 3, 5), expected))


@pytest.mark.slow
def test_the_compiler_is_not_loaded() -> None:
    """Guards against 70 MB and 0.7 s at each start for importing torch.optim.Optimizer."""
    code = (
        "import sys, torch; from training.optimizer.adamw import AdamW;"
        " from training.optimizer.update import update_groups; p = torch.nn.Parameter(torch.ones(3));"
        " p.grad = torch.ones(3);"
        " o = AdamW([{'params': [p], 'weight_decay': 0.1}], lr=1e-3, betas=(0.9, 0.99), eps=1e-8, fused=True);"
        " update_groups(o); o.load_state_dict(o.state_dict()); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\n", done.stderr
