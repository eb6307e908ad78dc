"""AdamW without `torch.optim.Optimizer`, whose first use loads the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

Group = dict[str, Any]


class AdamW:
    """Loshchilov & Hutter 2019, by torch's own kernels: `step` is torch.optim.AdamW's to the last bit, and so is the state.

    torch's class imports torch._dynamo to keep itself out of compiled code, which nobody here compiles: 70 MB of the
    300 MB that a small training process takes, and 0.7 s of its start.
    """

    def __init__(
        self, groups: Sequence[Group], *, lr: float, betas: tuple[float, float], eps: float, fused: bool
    ) -> None:
        """groups: `params` and `weight_decay` of each, and what the caller likes to keep there; `lr` may be changed between steps."""
        self.param_groups: list[Group] = [{"lr": lr, **group} for group in groups]
        self.betas, self.eps, self.fused = betas, eps, fused
        self.state: dict[int, dict[str, Tensor]] = {}
        """By the parameter's number, all groups counted through: `step`, `exp_avg`, `exp_avg_sq`."""

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        numbers = count()
        for group in self.param_groups:
            numbered = [(next(numbers), parameter) for parameter in group["params"]]
            parameters = [parameter for _, parameter in numbered if parameter.grad is not None]
            states = [self._state(number, parameter) for number, parameter in numbered if parameter.grad is not None]
            adamw(
                parameters, [parameter.grad for parameter in parameters], [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states], [], [state["step"] for state in states], fused=self.fused, amsgrad=False,
                beta1=self.betas[0], beta2=self.betas[1], lr=group["lr"], weight_decay=group["weight_decay"], eps=self.eps, maximize=False,
            )  # fmt: skip

    def _state(self, number: int, parameter: Tensor) -> dict[str, Tensor]:
        if number not in self.state:
            step = torch.zeros((), device=parameter.device if self.fused else "cpu")
            self.state[number] = {
                "step": step,
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[number]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Free all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Moments by number, and the groups with numbers for parameters, as torch.optim.AdamW writes them."""
        numbers = count()
        groups = [group | {"params": [next(numbers) for _ in group["params"]]} for group in self.param_groups]
        return {"state": {number: dict(state) for number, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore what `state_dict`, or torch.optim.AdamW's, gave."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        for group, restored in zip(self.param_groups, saved["param_groups"], strict=True):
            group.update({name: value for name, value in restored.items() if name != "params"})
        self.state = {
            number: {
                name: value.to(parameters[number].device if name != "step" or self.fused else "cpu", copy=True)
                for name, value in state.items()
            }
            for number, state in saved["state"].items()
        }
