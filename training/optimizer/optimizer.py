"""The optimiser of a run: AdamW for all parameters, or Muon for the block matrices and AdamW for the rest."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from configs.errors import UserError
from training.config import OptimConfig
from training.hardware.chunks import has_fused_adamw, norm_chunks
from training.hardware.finite import Applied, is_applied
from training.hardware.number_format import fast_format
from training.optimizer.adamw import AdamW
from training.optimizer.base import State, StatefulOptimizer
from training.optimizer.muon import Muon
from training.optimizer.weights import HIDDEN, OUTER, VECTORS, Weights, section


class Optimizer:
    """Combines one or two optimisers in a single `step` with gradient clipping and scheduled learning rates.

    AdamW is elementwise, so each section of the weights is passed to it as one long parameter.
    """

    def __init__(self, config: OptimConfig, weights: Weights) -> None:
        self.clip = config.clip
        self.gradient = weights.gradient
        self.everything = weights.flat_masters
        self.everything.grad = self.gradient
        self.applied: Applied = True
        """Whether the last step was applied."""

        def with_gradient(kind: str) -> Tensor:
            part = weights.flat_masters[weights.sections[kind]]
            part.grad = weights.gradient[weights.sections[kind]]
            return part

        muon = []
        if config.kind == "muon":
            parts = zip(weights.names, weights.masters, weights.gradients, strict=True)
            for name, master, gradient in parts:
                if section(name, master) == HIDDEN:
                    master.grad = gradient
                    muon.append(master)
        self.optimizers: list[StatefulOptimizer] = [
            AdamW(
                [
                    {
                        "params": [with_gradient(kind) for kind in ((OUTER,) if muon else (HIDDEN, OUTER))],
                        "weight_decay": config.weight_decay,
                        "peak": config.lr,
                    },
                    {"params": [with_gradient(VECTORS)], "weight_decay": 0.0, "peak": config.lr},
                ],
                lr=config.lr,
                betas=(config.beta1, config.beta2),
                eps=config.eps,
                fused=has_fused_adamw(self.everything.device),
            )
        ]
        if muon:
            # Decoupled decay is scaled by the learning rate, which is larger for Muon: reduce the factor accordingly.
            decay = config.weight_decay * config.lr / config.muon_lr
            group = {"params": muon, "weight_decay": decay, "peak": config.muon_lr}
            self.optimizers.append(Muon([group], lr=config.muon_lr, dtype=fast_format(self.everything.device)))

    def step(self, factor: float) -> Tensor:
        """Update at `factor` times the peak rates -> the gradient's L2 norm before clipping, scalar float32.

        If the norm is not finite, the step is not applied: weights and optimiser state keep their values.
        """
        norm = torch.nn.utils.get_total_norm(norm_chunks(self.gradient))
        self.applied = is_applied(norm)
        if self.applied is False:
            return norm
        applied = None if self.applied is True else self.applied
        if self.clip:
            # A factor of NaN would enter the gaps between the parameters, which no later gradient overwrites.
            clipped = norm if applied is None else norm.where(applied, math.inf)
            torch.nn.utils.clip_grads_with_norm_(self.everything, self.clip, clipped)
        if applied is not None and len(self.optimizers) > 1:
            self.gradient.masked_fill_(~applied, 0.0)  # for Muon
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step(applied)
        return norm

    def state_dict(self) -> list[list[State]]:
        """Return the states of the optimisers, in order."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, states: list[list[State]]) -> None:
        """Restore the optimiser states; learning rates and weight decays keep the current config.

        Raises UserError if the states do not match, e.g. because they come from a different kind of optimiser.
        """
        try:
            for optimizer, state in zip(self.optimizers, states, strict=True):
                optimizer.load_state_dict(state)
        except (ValueError, TypeError, AttributeError):  # different number of optimisers, sizes or structure
            raise UserError(
                "the checkpoint's optimiser state does not fit this configuration (another optim.kind?); "
                "generate.py and init_from=… can use its weights, but training cannot resume from it"
            ) from None
