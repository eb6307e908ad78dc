"""The optimiser of a run: one of AdamW, Muon and Scion for each section of the parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from configs.errors import UserError
from training.config import OptimConfig
from training.hardware.bfloat16 import fast_format
from training.optimizer.adamw import AdamW, has_fused_adamw
from training.optimizer.base_class import Group, Rate, State, StatefulOptimizer
from training.optimizer.muon import Muon
from training.optimizer.parameter_layout import HIDDEN, OUTER, VECTORS
from training.optimizer.scion import Scion
from training.optimizer.weights_gradients_ema import OptimizerPart, Weights
from training.processes.single_process import Processes


class Optimizer:
    """Combines up to three optimisers in a single `step` with gradient clipping and scheduled learning rates.

    AdamW is elementwise, so each section of the weights is passed to it as one long parameter. `Weights` decides which
    entries this process updates.
    """

    def __init__(self, config: OptimConfig, weights: Weights) -> None:
        self.clip = config.clip
        self.weights = weights
        self.corrections: Tensor | None = None
        """Those of AdamW for the next update, in compiled code."""
        self.compiled = False
        """Whether `measure` and `update` are compiled."""
        self.factor = 0.0
        """Of the peak learning rates, in the last step."""
        device = weights.everything[0].device
        muon = config.kind != "adamw" and bool(weights.layout.names(HIDDEN))
        scion = config.kind == "scion"
        decayed = [kind for kind, elsewhere in ((HIDDEN, muon), (OUTER, scion)) if not elsewhere]
        matrices = [part for kind in decayed for part in weights.updated(kind)]
        self.adamw = AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": weights.updated(VECTORS), "weight_decay": 0.0},
            ],
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            fused=has_fused_adamw(device),
        )
        self.optimizers: list[StatefulOptimizer] = [self.adamw]
        self.parts = [OptimizerPart((*decayed, VECTORS), matrices=False, state=AdamW.state_names)]
        if muon:
            # Decoupled decay is scaled by the learning rate, which is larger for Muon: reduce the factor accordingly.
            decay = config.weight_decay * config.lr / config.muon_lr
            group = {"params": weights.hidden(), "weight_decay": decay}
            dtype = torch.float32 if weights.dtype == torch.float32 else fast_format(device)
            equal, exchange = config.equal_norms, weights.exchange
            self.optimizers.append(Muon(group, lr=config.muon_lr, dtype=dtype, equal_norms=equal, exchange=exchange))
            self.parts.append(OptimizerPart((HIDDEN,), matrices=True, state=Muon.state_names))
        if scion:
            self.optimizers.append(Scion(scion_groups(config, weights.matrices(OUTER)), lr=config.embedding_lr))
            self.parts.append(OptimizerPart((OUTER,), matrices=True, state=Scion.state_names))
        weights.update_in(
            [p for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]]
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate of AdamW in the last step, for the log."""
        return self.adamw.param_groups[0]["lr"] * self.factor

    @torch.no_grad()
    def gradient_norm(self) -> Tensor:
        """Return the L2 norm of the step's gradient, before clipping, scalar float32 on the device."""
        norm, self.corrections = self.measure()
        return norm

    @torch.no_grad()
    def step(self, factor: float, norm: Tensor) -> None:
        """Update the weights by the step's gradient, whose norm is given, at `factor` times the peak rates."""
        self.factor = factor
        self.weights.gradient_is_old = True
        numbers: Sequence[float] | Tensor = (factor, self.weights.averaging_weight())
        if self.compiled:
            numbers = torch.tensor(numbers)
            if norm.is_cuda:  # without waiting for the queue
                numbers = numbers.pin_memory().to(norm.device, non_blocking=True)
        self.update(numbers, norm, self.corrections)

    # Compiled code replaces these two methods.

    def measure(self) -> tuple[Tensor, Tensor | None]:
        """Return the norm of the gradient, and in compiled code the corrections of AdamW."""
        return self.weights.gradient_norm(), self.adamw.corrections() if torch.compiler.is_compiling() else None

    def update(self, numbers: Sequence[float] | Tensor, norm: Tensor, corrections: Tensor | None) -> None:
        """Clip the gradient, update the master weights, and then their copies.

        numbers: factor of the learning rates, and weight of the average; a tensor in compiled code. norm, corrections:
        results of `measure`.
        """
        factor, averaging = numbers[0], numbers[1]
        if self.clip:
            # A gradient longer than `clip` is scaled down to it, so that one strange batch cannot undo many steps.
            parameters = [
                p for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]
            ]
            gradients = [p.grad for p in parameters if p.grad is not None]
            torch._foreach_mul_(gradients, (self.clip / (norm + 1e-6)).clamp(max=1.0))
        for optimizer in self.optimizers:
            more = {"corrections": corrections} if optimizer is self.adamw else {}
            update_groups(optimizer, factor, **more)
        # The model computes with the new weights from the next step on; the average follows them slowly.
        self.weights.refresh(averaging)

    def state_dict(self) -> list[list[State]]:
        """Return the states of the optimisers, in order."""
        return [
            self.weights.saved_states(optimizer.state_dict(), part)
            for optimizer, part in zip(self.optimizers, self.parts, strict=True)
        ]

    def follow_first(self, processes: Processes) -> None:
        """Copy the state of the first process, or the part of it that this process keeps."""
        for optimizer, part in zip(self.optimizers, self.parts, strict=True):
            self.weights.follow_states(optimizer, part, processes)

    def load_state_dict(self, states: list[list[State]]) -> None:
        """Restore the optimiser states; learning rates and weight decays keep the current config.

        Raises UserError if the states do not match, e.g. because they come from a different kind of optimiser.
        """
        try:
            for optimizer, state, part in zip(self.optimizers, states, self.parts, strict=True):
                self.weights.load_states(optimizer, state, part)
        except (ValueError, TypeError, AttributeError, IndexError):
            raise UserError(
                "the checkpoint's optimiser state does not fit this configuration (another optim.kind?); "
                "generate.py and init_from=… can use its weights, but training cannot resume from it"
            ) from None


@torch.no_grad()
def update_groups(optimizer: StatefulOptimizer, factor: Rate = 1.0, **more: Any) -> None:
    """Update every parameter with the gradient in its `grad`, at `factor` times the peak rates. more: arguments of
    `optimizer.update`.

    factor: a scalar tensor in compiled code, where a number would be a constant.
    """
    states = iter(optimizer.state)
    for group in optimizer.param_groups:
        parameters = group["params"]
        if parameters:  # there may be fewer matrices than processes that share them
            gradients = [p.grad for p in parameters]
            tensors = [next(states) for _ in parameters]
            optimizer.update(group, group["lr"] * factor, parameters, gradients, tensors, **more)


def scion_groups(config: OptimConfig, matrices: Mapping[str, Tensor]) -> list[Group]:
    """Return the groups of Scion: neighbours in the given order, which is that of the state, with the same rule."""
    groups = []
    for signs, members in groupby(matrices.items(), key=lambda member: member[0].startswith("head.")):
        peak = config.head_lr if signs else config.embedding_lr
        # As for Muon: the decay of a step is that of AdamW, whatever the rate.
        decay = config.weight_decay * config.lr / peak
        groups.append({"params": [p for _, p in members], "weight_decay": decay, "lr": peak, "signs": signs})
    return groups
