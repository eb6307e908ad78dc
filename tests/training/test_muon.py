"""Muon in batches against torch's, which goes matrix by matrix."""

import torch

from training.muon import Muon, orthogonalised

SHAPES = [(24, 16), (16, 24), (24, 16), (16, 16), (64, 16), (16, 24)]


def test_updates_are_those_of_torch() -> None:
    """Guards: another scale for tall matrices, a momentum of its own, matrices that change places in a batch."""
    torch.manual_seed(0)
    mine = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in mine]
    start = [p.detach().clone() for p in mine]
    optimizers = [
        Muon([{"params": mine, "weight_decay": 0.1}], lr=0.02),
        torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1),
    ]
    for _ in range(5):
        for a, b in zip(mine, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b, before in zip(mine, theirs, start, strict=True):
        torch.testing.assert_close(a - before, b - before, rtol=0.05, atol=0.002)  # both iterate in bfloat16


def test_singular_values_come_close_to_one() -> None:
    """Guards: a coefficient mistyped."""
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(torch.randn(3, 16, 40)))
    assert values.min() > 0.6
    assert values.max() < 1.3
