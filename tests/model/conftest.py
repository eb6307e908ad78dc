"""Small models with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from model.config import ModelConfig

CLASSIC = ModelConfig(layers=2, heads=2, width=32, context=16, norm="layer", qk_norm=False, bias=True)
CLASSIC.position, CLASSIC.activation = "sinusoidal", "gelu"
FLAVOURS = {
    "rotary": ModelConfig(layers=2, heads=4, width=32, context=16),
    "grouped": ModelConfig(
        layers=2, heads=4, kv_heads=2, width=32, context=16, activation="swiglu", cross_qk_norm=True, token_shift=True
    ),
    "classic": CLASSIC,
    "learned": ModelConfig(
        layers=2, heads=4, kv_heads=1, width=32, context=16, position="learned", tie_embeddings=False, token_shift=True
    ),
    "post_norm": ModelConfig(  # as Marian
        layers=2,
        heads=4,
        width=32,
        context=16,
        block="post_norm",
        norm="layer",
        position="sinusoidal",
        activation="silu",
        qk_norm=False,
        bias=True,
        output_bias=True,
    ),
    "scaled": ModelConfig(
        layers=2,
        heads=4,
        width=32,
        context=16,
        norm_eps=1e-5,
        rotary_base=500.0,
        activation="gelu_tanh",
        embedding_scale=3.0,
        tie_embeddings=False,
    ),
}
"""Model configurations that together use every part of the model."""

Sharpen = Callable[[nn.Module], nn.Module]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fill uninitialised memory from `torch.empty` with NaN, so that its use is detected."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(params=FLAVOURS)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    """Each configuration of `FLAVOURS`."""
    return FLAVOURS[request.param]


@pytest.fixture
def sharpen() -> Sharpen:
    """Randomise gains and biases and enlarge weights: outputs of a newly initialised model are so uniform that many
    bugs would not show."""

    def sharpened(model: nn.Module) -> nn.Module:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() < 2:
                    parameter.add_(torch.randn_like(parameter), alpha=0.3)
                else:
                    parameter.mul_(2.0)
        return model.eval()

    return sharpened
