"""Parameter groups, clipping, resume."""

import copy

import pytest
import torch
from torch import nn

from training.config import OptimConfig
from training.optimizers import Optimizer


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(7, 8)
        self.inner = nn.Linear(8, 8)
        self.norm = nn.RMSNorm(8)
        self.head = nn.Linear(8, 7, bias=False)

    def forward(self) -> torch.Tensor:
        return self.head(self.norm(self.inner(self.embedding.weight))).square().sum()


def build(kind: str, **settings: float) -> tuple[Small, Optimizer]:
    model = Small()
    named = dict(model.named_parameters())
    return model, Optimizer(OptimConfig(kind=kind, **settings), list(named), list(named.values()))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_every_parameter_is_in_exactly_one_group_and_only_matrices_decay(kind: str) -> None:
    """Guards: a parameter that is never trained, or a norm that is pulled to zero."""
    model, optimizer = build(kind)
    groups = [group for each in optimizer.optimizers for group in each.param_groups]
    assert sorted(id(p) for g in groups for p in g["params"]) == sorted(id(p) for p in model.parameters())
    assert all((p.ndim >= 2) == (g["weight_decay"] > 0) for g in groups for p in g["params"])


def test_muon_takes_the_matrices_inside_and_leaves_embedding_and_head() -> None:
    """Guards: orthogonalised embeddings, which learn badly."""
    model, optimizer = build("muon")
    assert [p for group in optimizer.optimizers[1].param_groups for p in group["params"]] == [model.inner.weight]


def test_the_norm_is_reported_before_clipping_and_the_gradient_is_clipped() -> None:
    """Guards: a logged norm that is always the clip value."""
    model, optimizer = build("adamw", clip=0.5)
    (100 * model()).backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    seen: list[float] = []
    step = optimizer.optimizers[0].step

    def spy(*args: object) -> None:
        seen.append(float(torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()))
        step()

    optimizer.optimizers[0].step = spy  # type: ignore[method-assign,assignment]
    assert float(optimizer.step(1.0)) == pytest.approx(float(norm))
    assert seen == [pytest.approx(0.5, rel=1e-3)]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_restored_optimiser_takes_the_same_next_step_but_at_the_new_peak_rate(kind: str) -> None:
    """Guards: `resume=… optim.lr=…` that says it changed the rate and does not, and moments that start anew."""
    first, optimizer = build(kind)
    for _ in range(3):
        first().backward()
        optimizer.step(1.0)
    second, restored = build(kind)
    second.load_state_dict(first.state_dict())
    saved = copy.deepcopy(optimizer.state_dict())  # as the disk would: torch shares the moments otherwise
    restored.load_state_dict(saved)
    for model, each in ((first, optimizer), (second, restored)):
        model().backward()
        each.step(0.5)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    _, changed = build(kind, lr=0.123)
    changed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert changed.optimizers[0].param_groups[0]["peak"] == 0.123
