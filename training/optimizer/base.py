"""What an optimiser is here: groups of parameters with settings, and a state for each parameter.

`torch.optim.Optimizer` is the same with a hundred times the code, and imports torch's compiler at its first use to keep
itself out of compiled code: 70 MB of the 300 MB that a small training process takes, and 0.7 s of its start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]
State = dict[str, Tensor]


class StatefulOptimizer(ABC):
    """Subclasses say what is remembered of a parameter and how a group of them is updated."""

    def __init__(self, groups: Sequence[Group], lr: float) -> None:
        """groups: `params` of each, and settings; `lr` is set for all and may be changed between steps."""
        self.param_groups: list[Group] = [{"lr": lr, **group} for group in groups]
        self.state: list[State] = [self.new_state(p) for group in self.param_groups for p in group["params"]]
        """In the order of the parameters, all groups counted through."""

    @abstractmethod
    def new_state(self, parameter: Tensor) -> State:
        """What is remembered of a parameter, before the first step."""

    @abstractmethod
    def update(self, group: Group, parameters: list[Tensor], gradients: list[Tensor], states: list[State]) -> None:
        """One step of a group, in place."""

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter by the gradient in its `grad`."""
        states = iter(self.state)
        for group in self.param_groups:
            parameters = group["params"]
            self.update(group, parameters, [p.grad for p in parameters], [next(states) for _ in parameters])

    def state_dict(self) -> list[State]:
        """What is remembered of each parameter. Rates and decays are the configuration's, which may change on
        resume."""
        return self.state

    @torch.no_grad()
    def load_state_dict(self, saved: list[State]) -> None:
        """Restore what `state_dict` gave. Raises ValueError where it is of other parameters or of another optimiser."""
        if _shapes(saved) != _shapes(self.state):
            raise ValueError("the state is of other parameters, or of another optimiser")
        for state, restored in zip(self.state, saved, strict=True):
            for name, tensor in state.items():
                tensor.copy_(restored[name])


def _shapes(states: list[State]) -> list[dict[str, torch.Size]]:
    return [{name: tensor.shape for name, tensor in state.items()} for state in states]
