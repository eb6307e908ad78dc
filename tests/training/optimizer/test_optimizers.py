"""Parameter groups, gradient clipping and resume of the optimisers."""

import copy

import pytest
import torch
from torch import nn

from configs.errors import UserError
from training.config import OptimConfig
from training.optimizer.muon import QUINTIC, Muon
from training.optimizer.update import Optimizer
from training.optimizer.weights_gradients_ema import Weights


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


def build(kind: str, **settings: float) -> tuple[Small, Weights, Optimizer]:
    model = Small()
    weights = Weights(model, torch.float32, ema=0.0)
    return model, weights, Optimizer(OptimConfig(kind=kind, **settings), weights)  # type: ignore[arg-type]


def places(tensor: torch.Tensor) -> set[int]:
    """Return the addresses of a tensor's entries."""
    return set(range(tensor.data_ptr(), tensor.data_ptr() + 4 * tensor.numel(), 4))


@pytest.mark.parametrize("kind", ["adamw", "muon", "scion"])
def test_every_parameter_is_in_exactly_one_group_and_only_matrices_decay(kind: str) -> None:
    """Guards against parameters that are never trained or trained twice, and norms that decay to zero."""
    model, _, optimizer = build(kind)
    groups = [group for each in optimizer.optimizers for group in each.param_groups]
    trained = [(places(p), group["weight_decay"] > 0) for group in groups for p in group["params"]]
    for parameter in model.parameters():
        decays = [decay for where, decay in trained if places(parameter) <= where]
        assert decays == [parameter.ndim >= 2]
    assert sum(len(where) for where, _ in trained) == len(set().union(*(where for where, _ in trained)))


def test_muon_takes_the_matrices_inside_and_leaves_embedding_and_head() -> None:
    """Guards against orthogonalised updates of embeddings, which train badly."""
    model, _, optimizer = build("muon")
    (matrix,) = [p for group in optimizer.optimizers[1].param_groups for p in group["params"]]
    assert matrix.data_ptr() == model.inner.weight.data_ptr()
    assert matrix.numel() == model.inner.weight.numel()


def test_the_norm_is_reported_before_clipping_and_the_gradient_is_clipped() -> None:
    """Guards against a logged norm that is always the clip value."""
    model, weights, optimizer = build("adamw", clip=0.5)
    gradients = weights.gradients_of(100 * model())
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    weights.add(gradients)
    measured = optimizer.gradient_norm()
    assert float(measured) == pytest.approx(float(norm))
    optimizer.step(1.0, measured)
    assert float(weights.gradient.norm()) == pytest.approx(0.5, rel=1e-3)


def test_the_norm_of_many_entries_is_exact() -> None:
    """Guards against a sequential float32 sum of squares, which loses 0.1% at 20 million entries and 1% at 120
    million."""
    model = nn.Linear(4096, 4096)
    weights = Weights(model, torch.float32, ema=0.0)
    optimizer = Optimizer(OptimConfig(kind="adamw", clip=None), weights)
    weights.gradient.normal_()
    before = weights.gradient.clone()
    norm = optimizer.gradient_norm()
    assert float(norm) == pytest.approx(float(before.double().norm()), rel=2e-5)
    optimizer.step(1.0, norm)
    assert torch.equal(weights.gradient, before), "nothing to clip"


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_flat_update_matches_torch_per_parameter(kind: str) -> None:
    """Guards against gradients assigned to another parameter, and padding that changes the norm."""
    model, weights, optimizer = build(kind, clip=0.5, lr=1e-2)
    alone, config = Small(), OptimConfig()
    matrices = [alone.inner.weight] if kind == "muon" else []
    rest = [p for p in alone.parameters() if all(p is not m for m in matrices)]
    plain: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [
                {"params": [p for p in rest if p.ndim > 1], "weight_decay": config.weight_decay},
                {"params": [p for p in rest if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=1e-2,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
        )
    ]
    if matrices:
        muon = optimizer.optimizers[1]
        assert isinstance(muon, Muon)
        muon.dtype = torch.bfloat16  # as torch's own, on every processor
        muon.coefficients, muon.equal_norms = QUINTIC, False
        group = muon.param_groups[0]
        plain.append(torch.optim.Muon(matrices, lr=group["lr"], weight_decay=group["weight_decay"]))
    for _ in range(3):
        weights.add(weights.gradients_of(model()))
        optimizer.step(1.0, optimizer.gradient_norm())
        alone().backward()
        torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.5)
        for each in plain:
            each.step()
            each.zero_grad()
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["adamw", "muon", "scion"])
def test_restored_optimiser_takes_the_same_step_at_the_new_rate(kind: str) -> None:
    """Guards against `resume=… optim.lr=…` without effect, and moments that are reset."""
    first, weights, optimizer = build(kind)
    for _ in range(3):
        weights.add(weights.gradients_of(first()))
        optimizer.step(1.0, optimizer.gradient_norm())
    second, other, restored = build(kind)
    other.load_state_dict(weights.state_dict(), weights.saved_weights())
    saved = copy.deepcopy(optimizer.state_dict())  # as the disk would: torch shares the moments otherwise
    restored.load_state_dict(saved)
    for model, copies, each in ((first, weights, optimizer), (second, other, restored)):
        copies.add(copies.gradients_of(model()))
        each.step(0.5, each.gradient_norm())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    _, _, changed = build(kind, lr=0.123)
    changed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert changed.optimizers[0].param_groups[0]["lr"] == 0.123


def test_a_state_of_another_optimiser_is_refused_in_words() -> None:
    """Guards against a traceback, or silently wrong moments, at a resume with another optimiser."""
    _, _, adamw = build("adamw")
    _, _, muon = build("muon")
    _, _, scion = build("scion")
    for optimizer, states in (
        (muon, adamw.state_dict()),
        (adamw, muon.state_dict()),
        (scion, muon.state_dict()),
        (muon, scion.state_dict()),
    ):
        with pytest.raises(UserError, match=r"optim\.kind"):
            optimizer.load_state_dict(states)
