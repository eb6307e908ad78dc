"""The optimiser: AdamW for everything, or Muon for the matrices inside the blocks and AdamW for the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from training.config import OptimConfig
from training.muon import Muon


class Optimizer:
    """One or two torch optimisers behind one `step`, with clipping and learning rates set from outside each step."""

    def __init__(self, config: OptimConfig, names: list[str], masters: list[Tensor]) -> None:
        self.clip = config.clip
        self.masters = masters
        named = list(zip(names, masters, strict=True))
        muon = [p for name, p in named if config.kind == "muon" and p.ndim == 2 and is_hidden_matrix(name)]
        ours = {id(p) for p in muon}
        rest = [p for _, p in named if id(p) not in ours]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(
                [
                    {
                        "params": [p for p in rest if p.ndim >= 2],
                        "weight_decay": config.weight_decay,
                        "peak": config.lr,
                    },
                    {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0, "peak": config.lr},
                ],
                lr=config.lr,
                betas=(config.beta1, config.beta2),
                eps=config.eps,
                fused=masters[0].device.type in ("cpu", "cuda"),
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
        norm = torch.nn.utils.clip_grad_norm_(self.masters, self.clip or float("inf"))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norm

    def state_dict(self) -> list[dict]:
        """States of the torch optimisers, in order."""
        return [optimizer.state_dict() for optimizer in self.optimizers]

    def load_state_dict(self, states: list[dict]) -> None:
        """Restore the moments, keeping the peak rates and decays of the present config: they may have been changed on resume."""
        for optimizer, state in zip(self.optimizers, states, strict=True):
            groups = [
                present | {"params": saved["params"]}
                for saved, present in zip(state["param_groups"], optimizer.param_groups, strict=True)
            ]
            optimizer.load_state_dict({"state": state["state"], "param_groups": groups})


def is_hidden_matrix(name: str) -> bool:
    """Whether a parameter is a matrix between hidden layers: embeddings and output heads suit AdamW better (Jordan et al. 2024)."""
    return "embedding" not in name and not name.startswith("head.")
