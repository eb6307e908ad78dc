"""The small layers: normalisation, dropout and the MLP, each in the form that is fast on a CPU as well as on a GPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from model.config import ModelConfig


class _EagerRMSNorm(torch.autograd.Function):
    """RMSNorm with a hand-written gradient for eager CPU execution.

    torch has no CPU kernel for RMSNorm: `F.rms_norm` and its gradient are a dozen passes over memory. Here there are
    half as many, with both reductions of the gradient as matrix-vector products: forward and backward together take
    0.4 times as long (2048 x 256 and 16384 x 64, float32 and bfloat16).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.promote_types(x.dtype, torch.float32))
        scale = norm.square_().mul_(1 / x.shape[-1]).add_(eps).rsqrt_().to(x.dtype)  # [..., 1]
        ctx.save_for_backward(x, scale, weight)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, scale, weight = ctx.saved_tensors
        product = (grad * x).reshape(-1, x.shape[-1])  # [N, C]
        grad_weight = torch.mv(product.t(), scale.reshape(-1))  # [C]
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
        by_hand = x.device.type == "cpu" and x.dtype == self.weight.dtype and torch.is_grad_enabled()
        if by_hand and not torch.compiler.is_compiling():
            return _EagerRMSNorm.apply(x, self.weight, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def make_norm(config: ModelConfig) -> nn.Module:
    """The normalisation named by `config.norm`, over the model width."""
    if config.norm == "rms":
        return RMSNorm(config.width)
    return nn.LayerNorm(config.width, bias=config.bias)


def dropout(x: Tensor, probability: float) -> Tensor:
    """Zero each element with the given probability and scale the others so that the expectation stays.

    On a CPU torch draws one random number per element on one thread: 160 M elements a second, which can take longer
    than the matrix products around it. Here one 64-bit draw serves eight elements, a byte each: three times as fast,
    seven times when compiled. The probability is therefore a multiple of 1/256 (0.1 becomes 26/256 = 0.1016), and the
    scale is that of the probability in use.
    """
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    threshold = min(round(probability * 256), 255)
    if threshold == 0:
        return x
    draws = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 8),))
    bytes_drawn = draws.view(torch.uint8)[: x.numel()].view(x.shape)
    return x * (bytes_drawn >= threshold).to(x.dtype).mul_(256 / (256 - threshold))


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
