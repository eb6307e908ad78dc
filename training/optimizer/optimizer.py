"""The optimiser of a run: one of AdamW, Muon and Scion for each section of the parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor

from configs.errors import UserError
from training.config import OptimConfig
from training.hardware.chunks import has_fused_adamw
from training.hardware.finite import Applied, is_applied
from training.hardware.number_format import fast_format
from training.optimizer.adamw import AdamW
from training.optimizer.base import Group, State, StatefulOptimizer
from training.optimizer.layout import HIDDEN, OUTER, VECTORS
from training.optimizer.muon import Muon
from training.optimizer.scion import Scion
from training.optimizer.weights import OptimizerPart, Weights
from training.processes.processes import Processes


class Optimizer:
    """Combines up to three optimisers in a single `step` with gradient clipping and scheduled learning rates.

    AdamW is elementwise, so each section of the weights is passed to it as one long parameter. `Weights` decides which
    entries this process updates.
    """

    def __init__(self, config: OptimConfig, weights: Weights) -> None:
        self.clip = config.clip
        self.weights = weights
        self.applied: Applied = True
        """Whether the last step was applied."""
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
        weights.update_in([p for each in self.optimizers for group in each.param_groups for p in group["params"]])

    @property
    def learning_rate(self) -> float:
        """Learning rate of AdamW in the last step, for the log."""
        return self.adamw.param_groups[0]["lr"] * self.factor

    @torch.no_grad()
    def step(self, factor: float) -> Tensor:
        """Update at `factor` times the peak rates -> the gradient's L2 norm before clipping, scalar float32.

        If the norm is not finite, the step is not applied: weights and optimiser state keep their values.
        """
        self.factor = factor
        norm, corrections = self.measure()
        self.applied = is_applied(norm)
        self.weights.gradient_is_old = True
        if self.applied is not False:
            numbers: Sequence[float] | Tensor = (factor, self.weights.averaging_weight())
            if self.compiled:
                numbers = torch.tensor(numbers)
                if norm.is_cuda:  # without waiting for the queue
                    numbers = numbers.pin_memory().to(norm.device, non_blocking=True)
            self.update(numbers, norm, corrections, None if self.applied is True else self.applied)
        return norm

    def measure(self) -> tuple[Tensor, Tensor | None]:
        """Return the norm of the gradient, and in compiled code the corrections of AdamW."""
        return self.weights.gradient_norm(), self.adamw.corrections() if torch.compiler.is_compiling() else None

    def update(
        self, numbers: Sequence[float] | Tensor, norm: Tensor, corrections: Tensor | None, applied: Tensor | None
    ) -> None:
        """Update the master weights, where `applied` is not False, and their copies.

        numbers: factor of the learning rates, and weight of the average; a tensor in compiled code. norm, corrections:
        results of `measure`.
        """
        factor, weight = numbers[0], numbers[1]
        parameters = [p for each in self.optimizers for group in each.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.clip:
            # A factor of NaN would enter the gaps between the parameters, which no later gradient overwrites.
            finite = norm if applied is None else norm.where(applied, math.inf)
            torch._foreach_mul_(gradients, (self.clip / (finite + 1e-6)).clamp(max=1.0))
        if applied is not None:
            weight = torch.where(applied, weight, 0.0)
            if len(self.optimizers) > 1:
                for gradient in gradients:
                    gradient.masked_fill_(~applied, 0.0)  # for Muon and Scion
        self.adamw.step(factor, applied, corrections=corrections)
        for optimizer in self.optimizers[1:]:
            optimizer.step(factor, applied)
        self.weights.refresh(weight)

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


def scion_groups(config: OptimConfig, matrices: Mapping[str, Tensor]) -> list[Group]:
    """Return the groups of Scion: neighbours in the given order, which is that of the state, with the same rule."""
    groups = []
    for signs, members in groupby(matrices.items(), key=lambda member: member[0].startswith("head.")):
        peak = config.head_lr if signs else config.embedding_lr
        # As for Muon: the decay of a step is that of AdamW, whatever the rate.
        decay = config.weight_decay * config.lr / peak
        groups.append({"params": [p for _, p in members], "weight_decay": decay, "lr": peak, "signs": signs})
    return groups
