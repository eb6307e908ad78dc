"""The small layers: normalisation, dropout and the MLP, each in the form that is fast on a CPU as well as on a GPU."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from model.config import ModelConfig


class _RMSNorm(torch.autograd.Function):
    """RMSNorm with a hand-written gradient for CPUs, eager and compiled.

    torch has no CPU kernel for RMSNorm: `F.rms_norm` and its gradient are a dozen passes over memory. Here there are
    half as many, with both reductions of the gradient as matrix-vector products: forward and backward together take
    0.4 times as long (2048 x 256 and 16384 x 64, float32 and bfloat16). Compiled, the sum over all rows that is the
    gain's gradient would walk down the columns: 4 times slower than the product.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        if torch.compiler.is_compiling():
            scale = x.to(wide).square().mean(dim=-1, keepdim=True).add(eps).rsqrt().to(x.dtype)  # [..., 1]
        else:
            norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)
            scale = norm.square_().mul_(1 / x.shape[-1]).add_(eps).rsqrt_().to(x.dtype)  # [..., 1]
        ctx.save_for_backward(x, scale, weight)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scale, weight = ctx.saved_tensors
        product = (grad * x).reshape(-1, x.shape[-1])  # [N, C]
        grad_weight = torch.mm(scale.reshape(1, -1), product).view(-1)  # [C]
        if torch.compiler.is_compiling():
            along_x = (grad * x * weight).sum(dim=-1, keepdim=True)
            return (grad * weight - x * (along_x * scale.square() / x.shape[-1])) * scale, grad_weight, None
        along_x = torch.mv(product, weight).view(scale.shape).mul_(scale.square().mul_(-1 / x.shape[-1]))  # [..., 1]
        return torch.addcmul(grad * weight, x, along_x).mul_(scale), grad_weight, None


class RMSNorm(nn.Module):
    """x / RMS(x) * weight over the last dimension (Zhang & Sennrich 2019). Input and output [..., width]."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """x [..., width] to the same shape."""
        if x.device.type == "cpu" and x.dtype == self.weight.dtype and torch.is_grad_enabled():
            return _RMSNorm.apply(x, self.weight, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def make_norm(config: ModelConfig) -> nn.Module:
    """The normalisation named by `config.norm`, over the model width."""
    if config.norm == "rms":
        return RMSNorm(config.width)
    return nn.LayerNorm(config.width, bias=config.bias)


_POOL = 1 << 22
"""Entries of the smallest pool of masks: 8 MB in bfloat16."""


def dropout(x: Tensor, probability: float) -> Tensor:
    """Zero each element with the given probability and scale the others so that the expectation stays.

    On a CPU torch draws one random number per element on one thread: 160 M elements a second, which can take longer
    than the matrix products around it. Eagerly, a mask is therefore a stretch at a random place of a pool drawn once:
    one pass over memory, as fast as adding. Compiled, the mask is computed where it is used, from the number of the
    element and a random seed.
    """
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    if torch.compiler.is_compiling():
        seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32)
        keep = _hashed(x.shape, seed) >= round(probability * 2**32) - 2**31
        return torch.where(keep, x * (1 / (1 - probability)), 0.0)
    entries = x.numel()
    # Twice as many as are needed, so that places differ; a power of two, so that few lengths give the same pool.
    pool = _mask_pool(probability, max(_POOL, 1 << (2 * entries - 1).bit_length()), x.dtype)
    start = int(torch.randint(len(pool) - entries + 1, ()))
    return x * pool[start : start + entries].view(x.shape)


@lru_cache(maxsize=8)
def _mask_pool(probability: float, entries: int, dtype: torch.dtype) -> Tensor:
    """1 / (1 - p) with probability 1 - p, else 0: [entries], the same in every process, so that a resumed run
    repeats."""
    draws = torch.randint(2**16, (entries,), dtype=torch.int32, generator=torch.Generator().manual_seed(0))
    return (draws >= round(probability * 2**16)).to(dtype).mul_(1 / (1 - probability))


def _hashed(shape: torch.Size, seed: Tensor) -> Tensor:
    """An int32 of any value for each element: Wellons' `lowbias32` of its index (github.com/skeeto/hash-prospector)."""
    x = torch.arange(math.prod(shape), dtype=torch.int32).view(shape) ^ seed
    x = x * 0x7FEB352D
    return (x ^ (x >> 15 & 0x1FFFF)) * (0x846CA68B - 2**32)


class Dropout(nn.Module):
    """`dropout` while training, the identity in evaluation (Srivastava et al. 2014)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape to the same shape."""
        if self.training and self.probability > 0:
            return dropout(x, self.probability)
        return x

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"probability={self.probability}"


class _EagerSquaredReLU(torch.autograd.Function):
    """relu(x)² with two passes backwards instead of four: 2 y already is 0 where the ReLU is shut."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = F.relu(x)
        ctx.save_for_backward(y)
        return y * y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return (grad * y).mul_(2)


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021). Eagerly half the time of `F.relu(x).square()`, whose gradient makes more passes."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return F.relu(x).square()
    return _EagerSquaredReLU.apply(x)


class FeedForward(nn.Module):
    """The MLP of a block: expand, bend, project back; [..., C] to [..., C].

    `gelu`: Hendrycks & Gimpel 2016, the exact form (the tanh form is four times slower on a CPU). `relu2`: the square
    of ReLU, So et al. 2021. `swiglu`: SiLU(x W) * (x U), Shazeer 2020, with W and U in one matrix.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        hidden = config.hidden_width
        self.expand = nn.Linear(config.width, 2 * hidden if self.activation == "swiglu" else hidden, bias=config.bias)
        self.project = nn.Linear(hidden, config.width, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., C] to [..., C]."""
        x = self.expand(x)  # [..., hidden], twice that for swiglu
        if self.activation == "relu2":
            x = squared_relu(x)
        elif self.activation == "gelu":
            x = F.gelu(x)
        else:
            gate, value = x.chunk(2, dim=-1)
            x = F.silu(gate) * value
        return self.project(x)
