"""The optimiser of a run: one of AdamW, Muon and Scion for each section of the parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import groupby

import torch
from torch import Tensor

from configs.errors import UserError
from training.config import OptimConfig
from training.hardware.chunks import has_fused_adamw, norm_chunks
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
        self.everything = weights.everything
        self.applied: Applied = True
        """Whether the last step was applied."""
        device = self.everything[0].device
        muon = config.kind != "adamw" and bool(weights.layout.names(HIDDEN))
        scion = config.kind == "scion"
        decayed = [kind for kind, elsewhere in ((HIDDEN, muon), (OUTER, scion)) if not elsewhere]
        self.optimizers: list[StatefulOptimizer] = [
            AdamW(
                [
                    {
                        "params": [part for kind in decayed for part in weights.updated(kind)],
                        "weight_decay": config.weight_decay,
                        "peak": config.lr,
                    },
                    {"params": weights.updated(VECTORS), "weight_decay": 0.0, "peak": config.lr},
                ],
                lr=config.lr,
                betas=(config.beta1, config.beta2),
                eps=config.eps,
                fused=has_fused_adamw(device),
            )
        ]
        self.parts = [OptimizerPart((*decayed, VECTORS), matrices=False, state=AdamW.state_names)]
        if muon:
            # Decoupled decay is scaled by the learning rate, which is larger for Muon: reduce the factor accordingly.
            decay = config.weight_decay * config.lr / config.muon_lr
            group = {"params": list(weights.matrices(HIDDEN).values()), "weight_decay": decay, "peak": config.muon_lr}
            dtype = torch.float32 if weights.dtype == torch.float32 else fast_format(device)
            equal, exchange = config.equal_norms, weights.exchange
            self.optimizers.append(Muon([group], lr=config.muon_lr, dtype=dtype, equal_norms=equal, exchange=exchange))
            self.parts.append(OptimizerPart((HIDDEN,), matrices=True, state=Muon.state_names))
        if scion:
            self.optimizers.append(Scion(scion_groups(config, weights.matrices(OUTER)), lr=config.embedding_lr))
            self.parts.append(OptimizerPart((OUTER,), matrices=True, state=Scion.state_names))

    def step(self, factor: float) -> Tensor:
        """Update at `factor` times the peak rates -> the gradient's L2 norm before clipping, scalar float32.

        If the norm is not finite, the step is not applied: weights and optimiser state keep their values.
        """
        gradients = [part.grad for part in self.everything if part.grad is not None]
        chunks = [chunk for gradient in gradients for chunk in norm_chunks(gradient)]
        norm = self.weights.norm_of_all(torch.nn.utils.get_total_norm(chunks))
        self.applied = is_applied(norm)
        if self.applied is False:
            return norm
        applied = None if self.applied is True else self.applied
        if self.clip:
            # A factor of NaN would enter the gaps between the parameters, which no later gradient overwrites.
            clipped = norm if applied is None else norm.where(applied, math.inf)
            torch.nn.utils.clip_grads_with_norm_(self.everything, self.clip, clipped)
        if applied is not None and len(self.optimizers) > 1:
            for gradient in gradients:
                gradient.masked_fill_(~applied, 0.0)  # for Muon and Scion
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step(applied)
        return norm

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
        except (
            ValueError,
            TypeError,
            AttributeError,
            IndexError,
        ):  # different number of optimisers, sizes or structure
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
        groups.append({"params": [p for _, p in members], "weight_decay": decay, "peak": peak, "signs": signs})
    return groups
