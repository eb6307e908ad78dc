"""AdamW (Loshchilov & Hutter 2019), using torch's functional kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from training.optimizer.base import Group, State, StatefulOptimizer


class AdamW(StatefulOptimizer):
    """AdamW with steps and state bit-identical to torch.optim.AdamW."""

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, groups: Sequence[Group], *, lr: float, betas: tuple[float, float], eps: float, fused: bool
    ) -> None:
        """groups: dicts with `params` and `weight_decay`. fused: use the single-pass kernel if available."""
        self.betas, self.eps, self.fused = betas, eps, fused
        super().__init__(groups, lr)

    def new_state(self, parameter: Tensor) -> State:
        """Return the step count, on the device that the kernel requires, and both moments."""
        return {
            "step": torch.zeros((), device=parameter.device if self.fused else "cpu"),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }

    def update(
        self,
        group: Group,
        parameters: list[Tensor],
        gradients: list[Tensor],
        states: list[State],
        applied: Tensor | None = None,
    ) -> None:
        """Update one parameter group in place. The fused kernel reads `applied` on the device; without it the update is
        undone where `applied` is False, except the step count, which is on the CPU."""
        updated = [*parameters, *(state[name] for state in states for name in ("exp_avg", "exp_avg_sq"))]
        before = [] if applied is None or self.fused else [tensor.clone() for tensor in updated]
        adamw(
            parameters,
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=self.fused,
            found_inf=None if applied is None or not self.fused else (~applied).float(),
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=self.eps,
            maximize=False,
        )
        for tensor, old in zip(updated, before, strict=False):
            tensor.copy_(tensor.where(applied, old))  # type: ignore[arg-type]
