"""The three copies of the weights: those that compute, their float32 masters, and their running average."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Lists of same-shaped tensors, updated in one call each: a loop over parameters costs milliseconds on small models.
copy_all = torch._foreach_copy_
lerp_all = torch._foreach_lerp_
add_all = torch._foreach_add_


class Weights:
    """Parameters of `model` in the dtype that computes, with float32 masters that the optimiser updates.

    In float32 the model's own parameters are the masters and nothing is copied. In bf16 the masters live beside them:
    an update of relative size 1e-3 would vanish in bf16's 8 bits of mantissa (Micikevicius et al. 2018).
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, ema: float) -> None:
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.names = list(named)
        self.separate = dtype != torch.float32
        self.masters: list[Tensor] = [
            nn.Parameter(p.detach().float().clone()) if self.separate else p for p in named.values()
        ]
        model.to(dtype)
        self.computing: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self.decay = ema
        self.average = [p.detach().clone() for p in self.masters] if ema else []
        self.updates = 0

    def collect_gradients(self) -> None:
        """Add the gradients of one micro-batch to the masters' in float32 and free them."""
        if not self.separate:
            return
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.computing]
        sums = [master.grad for master in self.masters if master.grad is not None]
        if sums:
            add_all(sums, [gradient.float() for gradient in gradients])
        else:
            for master, gradient in zip(self.masters, gradients, strict=True):
                master.grad = gradient.float()
        for parameter in self.computing:
            parameter.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """After an update of the masters: refresh the computing copy and the average."""
        self.updates += 1
        if self.separate:
            copy_all(self.computing, self.masters)
        if self.decay:
            # Early on a long memory would average in the random start: the decay grows to its value with the updates.
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            lerp_all(self.average, self.masters, 1 - decay)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within: the model computes with the weights that are evaluated and saved (the average, where one is kept)."""
        if not self.decay:
            yield
            return
        kept = None if self.separate else [p.detach().clone() for p in self.masters]
        with torch.no_grad():
            copy_all(self.computing, self.average)
        try:
            yield
        finally:
            with torch.no_grad():
                copy_all(self.computing, kept or self.masters)

    def best(self) -> dict[str, Tensor]:
        """The float32 weights to generate with: the average where one is kept, else the masters."""
        return dict(zip(self.names, (t.detach() for t in self.average or self.masters), strict=True))

    def state_dict(self) -> dict[str, object]:
        """What `best()` does not hold."""
        masters = dict(zip(self.names, (p.detach() for p in self.masters), strict=True)) if self.decay else None
        return {"updates": self.updates, "masters": masters}

    @torch.no_grad()
    def load_state_dict(self, state: dict, best: dict[str, Tensor]) -> None:
        """Restore from `state_dict()` and the saved `best()`."""
        self.updates = state["updates"]
        masters = state["masters"] or best
        copy_all(self.masters, [masters[name].to(self.masters[0].device) for name in self.names])
        if self.decay:
            copy_all(self.average, [best[name].to(self.masters[0].device) for name in self.names])
        if self.separate:
            copy_all(self.computing, self.masters)
