"""AdamW (Loshchilov & Hutter 2019), using torch's functional kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from training.optimizer.base_class import Group, Rate, State, StatefulOptimizer
from training.optimizer.weights_gradients_ema import sum_dtype


class AdamW(StatefulOptimizer):
    """AdamW with steps and state bit-identical to torch.optim.AdamW, in compiled code equal but for rounding."""

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
        rate: Rate,
        parameters: list[Tensor],
        gradients: list[Tensor],
        states: list[State],
        corrections: Tensor | None = None,
    ) -> None:
        """Update one parameter group in place. corrections: those of this step, in compiled code."""
        if corrections is not None:
            decay = 1 - rate * group["weight_decay"]
            for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
                self.update_compiled(decay, rate, parameter, gradient, state, corrections)
            return
        adamw(
            parameters,
            gradients,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=self.fused,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=rate,
            weight_decay=group["weight_decay"],
            eps=self.eps,
            maximize=False,
        )

    def corrections(self) -> Tensor:
        """Return the bias corrections 1 - β^t of both moments in the next step t, [2] float32."""
        step = self.state[0]["step"]
        step = step.to(sum_dtype(step.device)) + 1
        return torch.stack([1 - beta**step for beta in self.betas]).float()

    def update_compiled(
        self, decay: Rate, rate: Rate, parameter: Tensor, gradient: Tensor, state: State, corrections: Tensor
    ) -> None:
        """Update a parameter by the formulas of the paper, which the compiler turns into one kernel; it does not know
        torch's fused one. Given the corrections, it does not compute powers for every entry."""
        beta1, beta2 = self.betas
        bias1, bias2 = corrections.unbind()
        mean = state["exp_avg"].lerp(gradient, 1 - beta1)
        square = state["exp_avg_sq"].lerp(gradient.square(), 1 - beta2)
        size = (square / bias2).sqrt() + self.eps
        parameter.copy_(parameter * decay - rate * (mean / bias1) / size)
        state["exp_avg"].copy_(mean)
        state["exp_avg_sq"].copy_(square)
        state["step"].add_(1)


def has_fused_adamw(device: torch.device) -> bool:
    """Whether torch's AdamW updates parameters on this device in a single pass."""
    return device.type in ("cpu", "cuda")
