"""Muon (Jordan et al. 2024) for many small matrices: those of one shape or its transpose are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from training.optimizer.base_class import Group, MomentumOptimizer, Rate, State

Coefficients = Sequence[tuple[float, float, float]]
"""(a, b, c) of each step x -> a x + (b x xᵀ + c (x xᵀ)²) x of the quintic iteration."""

POLAR_EXPRESS: Coefficients = (
    (7.99662208, -21.18650908, 14.38189113),
    (4.04292994, -2.80891747, 0.50001785),
    (3.89166780, -2.77248415, 0.50606482),
    (3.28575366, -2.36812949, 0.46449024),
    (2.34654133, -1.70978284, 0.42323551),
)
"""The best five steps for small singular values (Amsel et al. 2025, Polar Express, arXiv 2505.16932), as in
modded-nanogpt; its division by 1.02, a margin for rounding, is part of the first step."""

QUINTIC: Coefficients = ((3.4445, -4.7750, 2.0315),) * 5
"""One polynomial with the steepest slope at zero (Jordan et al. 2024), as in torch.optim.Muon."""


class Exchange(Protocol):
    """Turns what this process updates into the whole matrices that it orthogonalises, and back: parts of matrices of
    which each process has some rows, or a flat tensor of all matrices."""

    shapes: list[torch.Size]
    """Of the whole matrices."""

    def to_owners(self, parts: list[Tensor]) -> dict[int, Tensor]:
        """Collective: from this process's part of every matrix -> the whole matrices that it owns, by index."""

    def from_owners(self, matrices: dict[int, Tensor], like: Tensor) -> list[Tensor]:
        """Collective, the inverse: from the matrices that this process owns -> its part of every matrix. All have the
        dtype and the device of `like`."""


class Whole:
    """The exchange of a process that updates whole matrices."""

    def __init__(self, shapes: list[torch.Size]) -> None:
        self.shapes = shapes

    def to_owners(self, parts: list[Tensor]) -> dict[int, Tensor]:
        """As in Exchange."""
        return dict(enumerate(parts))

    def from_owners(self, matrices: dict[int, Tensor], like: Tensor) -> list[Tensor]:
        """As in Exchange."""
        return [matrices[index] for index in range(len(self.shapes))]


class Muon(MomentumOptimizer):
    """`torch.optim.Muon` with batched products: half the time for a model of a few million parameters, whose single
    matrices are too small to occupy two cores.

    The update of a matrix [A, B] is √max(1, A/B) times the Nesterov momentum with all singular values set to about 1
    and then, with `equal_norms`, all its rows (if A <= B, all its columns) set to one norm, as in NorMuon (Li et al.
    2025, arXiv 2510.05491), but without its running average: an orthogonal matrix says nothing about the norms of the
    vectors along its longer side, so that some neurons would be updated much less than others.
    """

    def __init__(
        self,
        group: Group,
        *,
        lr: float,
        dtype: torch.dtype,
        momentum: float = 0.95,
        coefficients: Coefficients = POLAR_EXPRESS,
        equal_norms: bool = True,
        exchange: Exchange | None = None,
    ) -> None:
        """group: dict with `params` and `weight_decay`. dtype: of the orthogonalisation, bfloat16 if its products are
        fast, else float32. coefficients: of its steps. equal_norms: as described above. exchange: how `params` become
        matrices, each of which is orthogonalised in one process; None if they are matrices."""
        self.coefficients, self.dtype = coefficients, dtype
        self.equal_norms = equal_norms
        self.exchange = exchange or Whole([p.shape for p in group["params"]])
        self.batches = alike(self.exchange.shapes)
        super().__init__([group], lr=lr, momentum=momentum)

    def update(
        self, group: Group, rate: Rate, parameters: list[Tensor], gradients: list[Tensor], states: list[State]
    ) -> None:
        """Update one parameter group in place."""
        momenta = self.decay_and_average(group, rate, parameters, gradients, states)
        updates = [update.to(self.dtype) for update in torch._foreach_lerp(gradients, momenta, self.momentum)]
        mine = self.exchange.to_owners(updates)
        turned: dict[int, Tensor] = {}
        for indices in self.batches:
            owned = [index for index in indices if index in mine]
            turned |= zip(owned, self.orthogonalised([mine[index] for index in owned]), strict=True)
        for parameter, part in zip(parameters, self.exchange.from_owners(turned, updates[0]), strict=True):
            parameter.sub_(part.to(parameter.dtype) * rate)

    def orthogonalised(self, matrices: list[Tensor]) -> list[Tensor]:
        """Return the orthogonalised forms of matrices of one shape or its transpose, times √max(1, A/B) for [A, B]."""
        if not matrices:
            return []
        wide = [matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t() for matrix in matrices]
        turned = orthogonalised(torch.stack(wide), self.coefficients)
        if self.equal_norms:
            turned = with_equal_columns(turned)
        scale = (turned.shape[2] / turned.shape[1]) ** 0.5
        return [
            update if matrix.shape[0] <= matrix.shape[1] else update.t() * scale
            for matrix, update in zip(matrices, turned.unbind(), strict=True)
        ]


def alike(shapes: Sequence[torch.Size]) -> list[list[int]]:
    """Return the indices of the matrices of each shape, together with those of its transpose: they are one batch."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, shape in enumerate(shapes):
        groups.setdefault(tuple(sorted(shape)), []).append(index)
    return list(groups.values())


def orthogonalised(x: Tensor, coefficients: Coefficients = POLAR_EXPRESS) -> Tensor:
    """Return approximately U Vᵀ for each x = U S Vᵀ of [N, A, B], A <= B; its singular values are between 0.7 and 1.2.

    A Newton-Schulz iteration, which also converges in bfloat16.
    """
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    if x.dtype == torch.float32 and 2 * x.shape[1] <= x.shape[2]:
        return torch.bmm(_gram_polynomial(torch.bmm(x, x.transpose(1, 2)), coefficients), x)
    for a, b, c in coefficients:
        square = torch.bmm(x, x.transpose(1, 2))  # [N, A, A]
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x


def with_equal_columns(x: Tensor) -> Tensor:
    """Scale the columns of each matrix of x [N, A, B] to one norm; the Frobenius norm of the matrix stays. The result
    has the dtype of x, so that it is the same whether or not an `Exchange` carries it."""
    wide = x.float()
    squares = wide.square().sum(dim=1, keepdim=True)  # [N, 1, B]
    return (wide * (squares.mean(dim=2, keepdim=True) / squares.clamp(min=1e-12)).sqrt()).to(x.dtype)


def _gram_polynomial(gram: Tensor, coefficients: Coefficients) -> Tensor:
    """Return the matrices Q [N, A, A] such that Q x is the result of the iteration, computed from x xᵀ [N, A, A] alone.

    Each step multiplies x by a polynomial P of the current x xᵀ, which becomes P x xᵀ P. Requires float32: bfloat16
    rounding of x xᵀ loses small singular values. For x of [A, B], its time relative to products with x is 0.6 if
    B = 4 A, 0.85 if B = 2 A, and more than 1 if B is smaller (CPU, A = 128 and 192).
    """
    product: Tensor | None = None
    for step, (a, b, c) in enumerate(coefficients, start=1):
        rest = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)  # P = a + rest
        if product is None:
            product = rest.clone()
            product.diagonal(dim1=1, dim2=2).add_(a)
        else:
            product = torch.baddbmm(product, product, rest, beta=a)
        if step < len(coefficients):
            gram = torch.baddbmm(gram, gram, rest, beta=a)
            gram = torch.baddbmm(gram, gram, rest, beta=a)
    assert product is not None
    return product
