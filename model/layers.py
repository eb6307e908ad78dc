"""The small layers of a block: normalisation, dropout and the MLP."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ModelConfig
from model.fast_kernels import accelerated_by, fast_dropout, fast_rms_norm


@accelerated_by(fast_rms_norm)
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x / RMS(x) * weight over the last dimension of x, in float32 or wider (Zhang & Sennrich 2019)."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = (wide.square().mean(dim=-1, keepdim=True) + eps).rsqrt()  # [..., 1]
    return (wide * scale * weight).to(x.dtype)


@accelerated_by(fast_dropout)
def dropout(x: Tensor, probability: float) -> Tensor:
    """Zero each element with the given probability and scale the others to preserve the expectation."""
    return F.dropout(x, probability)


class RMSNorm(nn.Module):
    """`rms_norm` with a trained gain. Input and output are [..., width]."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [..., width]; same shape."""
        return rms_norm(x, self.weight, self.eps)


def make_rms_norm(config: ModelConfig, width: int) -> RMSNorm:
    """Create an RMSNorm over vectors of any width, such as those of a head."""
    return RMSNorm(width, 1e-6 if config.norm_eps is None else config.norm_eps)


def make_norm(config: ModelConfig) -> nn.Module:
    """Create the normalisation layer selected by `config.norm`, over the model width."""
    if config.norm == "rms":
        return make_rms_norm(config, config.width)
    return nn.LayerNorm(config.width, 1e-5 if config.norm_eps is None else config.norm_eps, bias=config.bias)


def make_final_norm(config: ModelConfig) -> nn.Module:
    """Create the norm at the end of a stack of blocks; a post-norm block ends with a norm itself."""
    return nn.Identity() if config.block == "post_norm" else make_norm(config)


class Dropout(nn.Dropout):
    """Apply `dropout` in training and the identity in evaluation (Srivastava et al. 2014)."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x, which may have any shape; the shape stays the same."""
        return dropout(x, self.p) if self.training and self.p > 0 else x


NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu2": lambda x: F.relu(x).square(),
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
"""The activations that act on each entry by itself: all but SwiGLU."""


class FeedForward(nn.Module):
    """The MLP of a block, [..., C] to [..., C]: expand, apply the nonlinearity, project back. `swiglu`: SiLU(x W) * (x
    U), with W and U in one matrix (Shazeer 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        hidden = config.hidden_width
        self.expand = nn.Linear(config.width, 2 * hidden if self.activation == "swiglu" else hidden, bias=config.bias)
        self.project = nn.Linear(hidden, config.width, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [..., C] to [..., C]."""
        x = self.expand(x)  # [..., hidden], twice that for swiglu
        if self.activation == "swiglu":
            gate, value = x.chunk(2, dim=-1)
            x = F.silu(gate) * value
        else:
            x = NONLINEARITIES[self.activation](x)
        return self.project(x)
