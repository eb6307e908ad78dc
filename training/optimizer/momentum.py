"""Base of the optimisers whose state is a running mean of the gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from training.optimizer.base import Group, Rate, State, StatefulOptimizer


class MomentumOptimizer(StatefulOptimizer):
    """Keeps a running mean of the gradients of each parameter, from which a subclass computes the update."""

    state_names = ("momentum_buffer",)

    def __init__(self, groups: Sequence[Group], *, lr: float, momentum: float) -> None:
        """groups: dicts with `params`, `weight_decay` and settings of the subclass. momentum: decay rate of the
        mean."""
        self.momentum = momentum
        super().__init__(groups, lr)

    def new_state(self, parameter: Tensor) -> State:
        """Return the momentum buffer: a running mean of the gradients."""
        return {"momentum_buffer": torch.zeros_like(parameter)}

    def decay_and_average(
        self, group: Group, rate: Rate, parameters: list[Tensor], gradients: list[Tensor], states: list[State]
    ) -> list[Tensor]:
        """Decay the parameters and add the gradients to the momenta, in place -> the momenta."""
        momenta = [state["momentum_buffer"] for state in states]
        torch._foreach_lerp_(momenta, gradients, 1 - self.momentum)
        torch._foreach_mul_(parameters, 1 - rate * group["weight_decay"])
        return momenta
