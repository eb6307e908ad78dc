"""Keep the copies of the weights: the compute copy, its float32 master weights, and their running average.

Each copy is one flat tensor of which the parameters are views. An operation on all parameters (sum, norm, update, copy)
is then one call instead of one per parameter, which saves a quarter of the fixed cost of a step in a small model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from configs.errors import UserError
from training.hardware.finite import Applied
from training.processes.processes import Processes

_ALIGNMENT = 64
"""Entries: parameters start at multiples of 256 bytes in float32 and 128 in bfloat16, for fast matrix products."""

HIDDEN, OUTER, VECTORS = "hidden matrices", "embeddings and heads", "vectors"
SECTIONS = (HIDDEN, OUTER, VECTORS)
"""Parameters that optimisers treat alike are contiguous, in this order: matrices are decayed, vectors are not; hidden
matrices suit Muon, embeddings and heads suit AdamW (Jordan et al. 2024)."""


def section(name: str, parameter: Tensor) -> str:
    """Return which of SECTIONS a parameter belongs to."""
    if parameter.ndim < 2:
        return VECTORS
    return OUTER if "embedding" in name or name.startswith("head.") or parameter.ndim > 2 else HIDDEN


class Weights:
    """Parameters of `model` in the compute dtype, with float32 master weights that the optimiser updates.

    In float32 the model's parameters are the master weights. In bf16 the master weights are separate: an update of
    relative size 1e-3 would vanish in bf16's 8 bits of mantissa (Micikevicius et al. 2018).
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype, ema: float) -> None:
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.names = list(named)
        self.shapes = [parameter.shape for parameter in named.values()]
        self.starts: dict[str, int] = {}
        self.sections: dict[str, slice] = {}
        self.length = 0
        for kind in SECTIONS:
            first = self.length
            for name, parameter in named.items():
                if section(name, parameter) == kind:
                    self.starts[name] = self.length
                    self.length += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
            self.sections[kind] = slice(first, self.length)
        device = next(iter(named.values())).device
        self.flat_masters = torch.zeros(self.length, device=device)
        self.masters = self.parts(self.flat_masters)
        with torch.no_grad():
            torch._foreach_copy_(self.masters, list(named.values()))
        model.to(dtype)
        self.separate = dtype != torch.float32
        self.flat_computing = self.flat_masters.to(dtype)  # the same tensor in float32
        self.computing = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.compute_with(self.flat_computing)
        self.gradient = torch.zeros_like(self.flat_masters)
        self.gradients = self.parts(self.gradient)
        self.gradient_is_old = True
        self.decay = ema
        self.flat_average = self.flat_masters.clone() if ema else None
        self.updates = 0

    def parts(self, flat: Tensor) -> list[Tensor]:
        """Return views of a flat tensor in the shapes of the parameters, in the model's order."""
        return [
            flat[self.starts[name] : self.starts[name] + shape.numel()].view(shape)
            for name, shape in zip(self.names, self.shapes, strict=True)
        ]

    @property
    def average(self) -> list[Tensor]:
        """The averaged parameters; empty without averaging."""
        return [] if self.flat_average is None else self.parts(self.flat_average)

    @torch.no_grad()
    def collect_gradients(self) -> None:
        """Add a micro-batch's gradients to `gradient` in float32 and free them; overwrite it after an update."""
        found = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.computing]
        if self.gradient_is_old:
            torch._foreach_copy_(self.gradients, found)
        else:
            for total, gradient in zip(self.gradients, found, strict=True):  # foreach would copy all to float32 first
                total.add_(gradient)
        self.gradient_is_old = False
        for parameter in self.computing:
            parameter.grad = None

    def add_up_gradients(self, processes: Processes) -> None:
        """Sum `gradient` over all processes; one without a micro-batch contributes zero."""
        if self.gradient_is_old:
            self.gradient.zero_()
            self.gradient_is_old = False
        processes.add_up(self.gradient)

    @torch.no_grad()
    def publish(self, applied: Applied = True) -> None:
        """Refresh the compute copy and the average after an update of the master weights, if it was applied."""
        self.gradient_is_old = True
        if applied is False:
            return
        self.updates += 1  # on a GPU also of a skipped step: the ramp-up below does not depend on single steps
        if self.separate:
            self.flat_computing.copy_(self.flat_masters)
        if self.flat_average is not None:
            # A ramp-up of the decay keeps the random initialisation out of the average.
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            weight = 1 - decay if applied is True else torch.where(applied, 1 - decay, 0.0)
            self.flat_average.lerp_(self.flat_masters, weight)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Compute with the weights that are evaluated and saved (the average, if one is kept) inside the context.

        The parameters become views of another tensor and no copy of the weights is modified, so that an exception or a
        signal at any point leaves master weights and average intact.
        """
        if self.flat_average is None:
            yield
            return
        try:
            self.compute_with(self.flat_average.to(self.flat_computing.dtype))
            yield
        finally:
            self.compute_with(self.flat_computing)

    def compute_with(self, flat: Tensor) -> None:
        """Make the model's parameters views of `flat`, which has the compute dtype."""
        for parameter, part in zip(self.computing, self.parts(flat), strict=True):
            parameter.data = part

    def best(self) -> dict[str, Tensor]:
        """Return the float32 weights for generation: the average if one is kept, else the master weights."""
        return dict(zip(self.names, self.average or self.masters, strict=True))

    def state_dict(self) -> dict[str, object]:
        """Return the state that `best()` does not contain."""
        masters = dict(zip(self.names, self.masters, strict=True)) if self.decay else None
        return {"updates": self.updates, "masters": masters, "starts": self.starts}

    @torch.no_grad()
    def load_state_dict(self, state: dict, best: dict[str, Tensor]) -> None:
        """Restore from `state_dict()` and the saved `best()`; raises UserError if the layout differs, since the
        optimiser's flat state would then be applied to the wrong parameters."""
        if state.get("starts") != self.starts:
            raise UserError(
                "the checkpoint was written by an older version of this program, which stored the optimiser's state"
                " in another order; generate.py and init_from=… can use its weights, but training cannot resume from it"
            )
        self.updates = state["updates"]
        self.fill(self.flat_masters, state["masters"] or best)
        if self.flat_average is not None:
            self.fill(self.flat_average, best)
        if self.separate:
            self.flat_computing.copy_(self.flat_masters)

    def fill(self, flat: Tensor, named: dict[str, Tensor]) -> None:
        """Copy named parameters into a flat tensor."""
        torch._foreach_copy_(self.parts(flat), [named[name].to(flat.device) for name in self.names])
