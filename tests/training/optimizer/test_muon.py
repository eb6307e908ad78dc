"""Batched Muon compared with torch.optim.Muon, which processes one matrix at a time."""

from pathlib import Path

import pytest
import torch

from training.config import OptimConfig
from training.hardware import bfloat16
from training.optimizer.muon import QUINTIC, Muon, orthogonalised
from training.optimizer.parameter_layout import HIDDEN, FlatMatrices, layout_of
from training.optimizer.update import Optimizer, update_groups
from training.optimizer.weights_gradients_ema import Weights

SHAPES = [(24, 16), (16, 24), (24, 16), (16, 16), (64, 16), (16, 24)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_updates_are_those_of_torch(dtype: torch.dtype) -> None:
    """Guards against a different scale for tall matrices, a different momentum, and matrices swapped within a batch."""
    torch.manual_seed(0)
    mine = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in mine]
    start = [p.detach().clone() for p in mine]
    optimizers = [
        Muon({"params": mine, "weight_decay": 0.1}, lr=0.02, dtype=dtype, coefficients=QUINTIC, equal_norms=False),
        torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1),
    ]
    for _ in range(5):
        for a, b in zip(mine, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            update_groups(optimizer) if isinstance(optimizer, Muon) else optimizer.step()
    for a, b, before in zip(mine, theirs, start, strict=True):
        torch.testing.assert_close(a - before, b - before, rtol=0.05, atol=0.002)  # torch iterates in bfloat16


@pytest.mark.parametrize("shape", [(24, 16), (16, 24), (16, 16)])
def test_equal_norms_along_the_longer_side(shape: tuple[int, int]) -> None:
    """Guards against scaling the shorter side, whose vectors have equal norms already, and against a larger step."""
    torch.manual_seed(0)
    gradient = torch.randn(shape) * torch.logspace(-2, 0, max(shape)).view((-1, 1) if shape[0] > shape[1] else (1, -1))
    updates = {}
    for equal in (False, True):
        weight = torch.nn.Parameter(torch.zeros(shape))
        weight.grad = gradient.clone()
        update_groups(Muon({"params": [weight], "weight_decay": 0.0}, lr=0.1, dtype=torch.float32, equal_norms=equal))
        updates[equal] = weight.detach()
    norms = updates[True].norm(dim=1 if shape[0] > shape[1] else 0)
    torch.testing.assert_close(norms, norms.mean().expand_as(norms))
    torch.testing.assert_close(updates[True].norm(), updates[False].norm())
    scales = (updates[True] / updates[False]).aminmax(dim=1 if shape[0] > shape[1] else 0)
    torch.testing.assert_close(scales.min, scales.max)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_an_exchange_changes_no_bit(dtype: torch.dtype) -> None:
    """Guards against weights in one flat tensor, or divided among processes, that are trained differently: the exchange
    carries updates in the dtype of the orthogonalisation, so nothing may be computed in another one after it."""
    torch.manual_seed(0)
    named = {f"layer{i}": torch.randn(shape) for i, shape in enumerate(SHAPES)}
    layout = layout_of(named)
    whole = [torch.zeros(shape) for shape in SHAPES]
    for weight, gradient in zip(whole, named.values(), strict=True):
        weight.grad = gradient.clone()
    flat = torch.zeros(layout.length)
    flat.grad = layout.flat(list(named.values()))
    for params, exchange in ((whole, None), ([flat], FlatMatrices(layout, HIDDEN))):
        update_groups(Muon({"params": params, "weight_decay": 0.0}, lr=0.1, dtype=dtype, exchange=exchange))
    assert all(map(torch.equal, whole, layout.parts(flat)))


@pytest.mark.parametrize("columns", [16, 40])
def test_singular_values_come_close_to_one(columns: int) -> None:
    """Guards against a mistyped coefficient in either form of the iteration."""
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(3, 8, columns)))
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_both_forms_of_the_iteration_agree() -> None:
    """Guards against powers of x xᵀ that differ from the definition, and small singular values that are lost."""
    torch.manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(3, size, 16))[0] for size in (16, 64))
    x = left @ torch.logspace(0, -4, 16).diag() @ right.transpose(1, 2)  # [3, 16, 64], singular values 1 to 0.0001
    definition = orthogonalised(x.double())
    torch.testing.assert_close(
        orthogonalised(x).double(), definition, rtol=0, atol=4e-3 * float(definition.abs().max())
    )


@pytest.mark.parametrize(
    ("dtype", "allowed", "used"),
    [
        (torch.bfloat16, "ALL", torch.bfloat16),
        (torch.bfloat16, "AVX2", torch.float32),
        (torch.float32, "ALL", torch.float32),
    ],
)
def test_products_are_in_bfloat16_only_in_bf16_training_and_where_that_is_fast(
    dtype: torch.dtype, allowed: str, used: torch.dtype, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Guards against rounding in a run with trainer.precision=float32, and against emulated bfloat16, 40 times as slow
    as float32 on a CPU with AVX2."""
    (tmp_path / "cpuinfo").write_text("flags : avx512f avx512_bf16 amx_bf16\n")
    monkeypatch.setattr(bfloat16, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", allowed)
    weights = Weights(torch.nn.Linear(8, 8, bias=False), dtype, 0.0)
    muon = Optimizer(OptimConfig(kind="muon"), weights).optimizers[1]
    assert isinstance(muon, Muon)
    assert muon.dtype == used
