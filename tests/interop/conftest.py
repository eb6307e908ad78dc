"""Random models whose outputs are far from uniform, in every flavour."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from model.config import ModelConfig

CHOICES: dict[str, tuple[Any, ...]] = {
    "norm": ("rms", "layer"),
    "position": ("rotary", "learned", "sinusoidal"),
    "activation": ("relu2", "gelu", "swiglu"),
    "qk_norm": (True, False),
    "bias": (False, True),
    "tie_embeddings": (True, False),
    "kv_heads": (None, 2),
}
"""Every value of the settings that change what a model computes."""


def flavours(**more: Any) -> Iterator[ModelConfig]:
    """Yield a small model for each combination of `CHOICES`; its vocabulary has rows of padding."""
    for values in itertools.product(*CHOICES.values()):
        chosen = dict(zip(CHOICES, values, strict=True))
        yield ModelConfig(layers=2, heads=4, width=32, context=24, vocab_multiple=64, **chosen, **more)


def sharpened(model: nn.Module, seed: int = 0) -> nn.Module:
    """Randomise gains and biases and enlarge weights: a newly initialised model would hide many errors."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() < 2:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
            else:
                parameter.copy_(torch.randn_like(parameter) * parameter.std() * 2)
    return model.eval()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
