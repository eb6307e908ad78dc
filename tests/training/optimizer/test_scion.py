"""Scion's rules for embeddings and heads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from training.config import OptimConfig
from training.optimizer.parameter_layout import OUTER, layout_of
from training.optimizer.update import Optimizer
from training.optimizer.weights_gradients_ema import Weights


class Untied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(90, 20)
        self.head = nn.Linear(20, 90)


def test_three_updates_are_those_of_the_formulas() -> None:
    """Guards against the rules exchanged, another momentum, norms of columns, decay that grows with the rate, and rare
    tokens that drift along old gradients."""
    torch.manual_seed(0)
    model = Untied()
    weights = Weights(model, torch.float32, ema=0.0)
    config = OptimConfig(kind="scion", lr=0.003, embedding_lr=0.02, head_lr=0.004, weight_decay=0.5, clip=0.0)
    optimizer = Optimizer(config, weights)
    expected = {name: each.detach().numpy().astype(np.float64) for name, each in model.named_parameters()}
    momenta = {name: np.zeros_like(each) for name, each in expected.items()}
    for factor in (0.5, 1.0, 0.25):
        gradients = {name: torch.randn(each.shape) for name, each in model.named_parameters()}
        gradients["embedding.weight"][3] = 0.0  # a token that no batch contains
        gradients["embedding.weight"][5:40] *= factor == 0.5  # tokens of the first batch alone
        weights.add([gradients[name] for name in weights.layout.shapes])
        optimizer.step(factor, optimizer.gradient_norm())
        for name, rate in (("embedding.weight", 0.02), ("head.weight", 0.004)):
            m = momenta[name] = 0.95 * momenta[name] + 0.05 * gradients[name].double().numpy()
            rms = np.sqrt((m**2).mean(axis=1, keepdims=True))
            moved = (gradients[name] != 0).any(dim=1, keepdim=True).numpy()
            step = np.sign(m) if name == "head.weight" else moved * m / np.where(rms == 0, 1, rms)
            expected[name] = expected[name] * (1 - factor * 0.003 * 0.5) - factor * rate * step
    for name in ("embedding.weight", "head.weight"):
        np.testing.assert_allclose(model.get_parameter(name).detach().numpy(), expected[name], atol=1e-6)


@pytest.mark.parametrize("world", [2, 4, 5])
def test_no_border_of_two_shares_divides_a_row(world: int) -> None:
    """Guards against rows of which each process normalises a part, for a width that is no multiple of the alignment."""
    named = dict(Untied().named_parameters()) | {"position_embedding.weight": torch.empty(50, 20)}
    layout = layout_of(named, world)
    section = layout.sections[OUTER]
    flat = torch.arange(float(section.stop - section.start))
    rows: dict[str, list[torch.Tensor]] = {}
    for rank, share in enumerate(flat.view(world, -1)):
        for name, part in layout.rows(OUTER, rank, share).items():
            rows.setdefault(name, []).append(part)
    whole = layout.named(OUTER, flat)
    assert rows.keys() == whole.keys()
    assert max(map(len, rows.values())) > 1, "a table is divided"
    assert all(torch.equal(torch.cat(parts), whole[name]) for name, parts in rows.items())
