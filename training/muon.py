"""Muon (Jordan et al. 2024) for many small matrices: those of one shape are orthogonalised together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic iteration, steepest at zero (Jordan et al. 2024)."""


class Muon(torch.optim.Optimizer):
    """`torch.optim.Muon` with its defaults and its state, in batched products: half the time for a model of a few million
    parameters, whose matrices are too small to keep two cores busy one by one.

    The update of a matrix [A, B] is its gradient's Nesterov momentum with all singular values set to about 1, times
    √max(1, A/B).
    """

    def __init__(
        self, params: Iterable[Any], lr: float, weight_decay: float, momentum: float = 0.95, steps: int = 5
    ) -> None:
        """params: matrices, or groups of them."""
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "steps": steps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient; `closure` is not supported."""
        assert closure is None
        for group in self.param_groups:
            matrices = [p for p in group["params"] if p.grad is not None]
            if not matrices:
                continue
            for matrix in matrices:
                if not self.state[matrix]:
                    self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
            gradients = [p.grad for p in matrices]
            momenta = [self.state[p]["momentum_buffer"] for p in matrices]
            torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
            updates = torch._foreach_lerp(gradients, momenta, group["momentum"])
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            for indices in _by_shape(matrices):
                rows, columns = matrices[indices[0]].shape
                wide = [updates[i] if rows <= columns else updates[i].t() for i in indices]
                turned = orthogonalised(torch.stack(wide).bfloat16(), group["steps"]).to(matrices[0].dtype)
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                parts = turned.unbind() if rows <= columns else turned.transpose(1, 2).unbind()
                torch._foreach_add_([matrices[i] for i in indices], list(parts), alpha=-rate)


def _by_shape(matrices: list[Tensor]) -> list[list[int]]:
    """Indices of the matrices of each shape."""
    shapes: defaultdict[torch.Size, list[int]] = defaultdict(list)
    for index, matrix in enumerate(matrices):
        shapes[matrix.shape].append(index)
    return list(shapes.values())


def orthogonalised(x: Tensor, steps: int = 5) -> Tensor:
    """U Vᵀ for each x = U S Vᵀ of [N, A, B], A <= B, about: singular values come to lie between 0.7 and 1.2.

    A Newton-Schulz iteration, which converges from bfloat16 too.
    """
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        square = torch.bmm(x, x.transpose(1, 2))  # [N, A, A]
        polynomial = torch.baddbmm(square, square, square, beta=_B, alpha=_C)
        x = torch.baddbmm(x, polynomial, x, beta=_A)
    return x
