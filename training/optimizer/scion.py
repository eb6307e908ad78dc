"""The rules of Scion (Pethick et al. 2025, arXiv 2502.07529) for embeddings and the output head. Its rule for the
matrices inside blocks is that of `muon`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.optimizer.base_class import Group, MomentumOptimizer, Rate, State

_SMALLEST_NORM = 1e-12


class Scion(MomentumOptimizer):
    """Updates from a running mean m of the gradients, of a size that does not depend on theirs, without second moments.

    The update of a group with `signs` is sign(m), which suits an output head: it limits the change of every logit. That
    of another group is m with each row scaled to a root mean square of 1, which suits an embedding, whose rows are
    separate inputs. A row without gradient, that of a token which the batch does not contain, is not updated: what is
    left of its momentum, scaled up, would move it far away.
    """

    def __init__(self, groups: Sequence[Group], *, lr: float, momentum: float = 0.95) -> None:
        """groups: dicts with `params` (whole rows of matrices), `weight_decay` and `signs` (bool)."""
        super().__init__(groups, lr=lr, momentum=momentum)

    def update(
        self, group: Group, rate: Rate, parameters: list[Tensor], gradients: list[Tensor], states: list[State]
    ) -> None:
        """Update one parameter group in place."""
        momenta = self.decay_and_average(group, rate, parameters, gradients, states)
        for parameter, gradient, momentum in zip(parameters, gradients, momenta, strict=True):
            if group["signs"]:
                step = momentum.sign()
            else:
                step = with_unit_rows(momentum) * (gradient != 0).any(dim=-1, keepdim=True)
            parameter.sub_(step * rate)


def with_unit_rows(x: Tensor) -> Tensor:
    """Scale the last dimension of x to a root mean square of 1; rows of zeros stay."""
    norms = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * (x.shape[-1] ** 0.5 / norms.clamp(min=_SMALLEST_NORM))
