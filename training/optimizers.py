"""The optimiser: AdamW for everything, or Muon for the matrices inside the blocks and AdamW for the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from training.config import OptimConfig
from training.errors import UserError
from training.muon import Muon
from training.weights import HIDDEN, OUTER, VECTORS, Weights, section


class Optimizer:
    """One or two torch optimisers behind one `step`, with clipping and learning rates set from outside each step.

    AdamW goes entry by entry, so that it is given whole sections of the weights as one long parameter each.
    """

    def __init__(self, config: OptimConfig, weights: Weights) -> None:
        self.clip = config.clip
        self.everything = weights.flat_masters
        self.everything.grad = weights.gradient

        def one(kind: str) -> Tensor:
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
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(
                [
                    {
                        "params": [one(kind) for kind in ((OUTER,) if muon else (HIDDEN, OUTER))],
                        "weight_decay": config.weight_decay,
                        "peak": config.lr,
                    },
                    {"params": [one(VECTORS)], "weight_decay": 0.0, "peak": config.lr},
                ],
                lr=config.lr,
                betas=(config.beta1, config.beta2),
                eps=config.eps,
                fused=self.everything.device.type in ("cpu", "cuda"),
            )
        ]
        if muon:
            # Decoupled decay is scaled by the learning rate; Muon's is larger, so the same strength needs a smaller factor.
            decay = config.weight_decay * config.lr / config.muon_lr
            self.optimizers.append(
                Muon([{"params": muon, "peak": config.muon_lr}], lr=config.muon_lr, weight_decay=decay)
            )

    def step(self, factor: float) -> Tensor:
        """One update at `factor` times the peak rates -> the gradient's L2 norm before clipping, scalar float32."""
        norm = torch.nn.utils.clip_grad_norm_(self.everything, self.clip or float("inf"))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()
        return norm

    def state_dict(self) -> list[dict]:
        """States of the torch optimisers, in order."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, states: list[dict]) -> None:
        """Restore the moments, keeping the peak rates and decays of the present config: they may have been changed on resume.

        Raises UserError where the state does not fit: it is of another kind of optimiser, or was saved by an older version.
        """
        if [_sizes(state) for state in states] != [_sizes(optimizer.state_dict()) for optimizer in self.optimizers]:
            raise UserError(
                "the checkpoint's optimiser state does not fit: it is of another optim.kind or was written by an older version of "
                "this program; generate.py reads its weights, but training begins anew"
            )
        for optimizer, state in zip(self.optimizers, states, strict=True):
            groups = [
                present | {"params": saved["params"]}
                for saved, present in zip(state["param_groups"], optimizer.param_groups, strict=True)
            ]
            optimizer.load_state_dict({"state": state["state"], "param_groups": groups})


def _sizes(state: dict) -> list[int]:
    """How many parameters each group of a torch optimiser's state has."""
    return [len(group["params"]) for group in state["param_groups"]]
