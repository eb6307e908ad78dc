"""Base classes of the optimisers: parameter groups with settings, and a state for each parameter.

`torch.optim.Optimizer` provides the same with a hundred times the code and imports torch's compiler on first use, which
costs 70 MB of the 300 MB of a small training process, and 0.7 s at startup.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]
State = dict[str, Tensor]
Rate = float | Tensor
"""A learning rate, or its fraction of the peak: a number, or a scalar tensor in compiled code."""


class StatefulOptimizer(ABC):
    """Base class; subclasses define the state of a parameter and the update of a group."""

    state_names: tuple[str, ...]
    """Names of the tensors in the state of a parameter that have its shape."""

    def __init__(self, groups: Sequence[Group], lr: float) -> None:
        """groups: dicts with `params` and settings. lr: peak rate of the groups without an `lr` of their own."""
        self.param_groups: list[Group] = [{"lr": lr, **group} for group in groups]
        self.state: list[State] = [self.new_state(p) for group in self.param_groups for p in group["params"]]
        """In parameter order across all groups."""

    @abstractmethod
    def new_state(self, parameter: Tensor) -> State:
        """Return the initial state of a parameter."""

    @abstractmethod
    def update(
        self, group: Group, rate: Rate, parameters: list[Tensor], gradients: list[Tensor], states: list[State]
    ) -> None:
        """Update one parameter group in place at a learning rate."""

    def state_dict(self) -> list[State]:
        """Return the state of each parameter, without learning rates and decays, which a resume may change."""
        return self.state

    @torch.no_grad()
    def load_state_dict(self, saved: list[State]) -> None:
        """Restore the output of `state_dict`. Raises ValueError for other parameters or another optimiser."""
        if _shapes(saved) != _shapes(self.state):
            raise ValueError("the state is of other parameters, or of another optimiser")
        for state, restored in zip(self.state, saved, strict=True):
            for name, tensor in state.items():
                tensor.copy_(restored[name])


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


def _shapes(states: list[State]) -> list[dict[str, torch.Size]]:
    return [{name: tensor.shape for name, tensor in state.items()} for state in states]
