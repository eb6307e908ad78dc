"""Keep the copies of the weights: the compute copy, its float32 master weights, and their running average.

Each copy is one flat tensor of which the parameters are views. An operation on all parameters (sum, norm, update, copy)
is then one call instead of one per parameter, which saves a quarter of the fixed cost of a step in a small model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from configs.errors import UserError
from training.optimizer.base_class import Rate, State, StatefulOptimizer
from training.optimizer.muon import Exchange
from training.optimizer.parameter_layout import ALIGNMENT, HIDDEN, FlatMatrices, Layout, layout_of
from training.processes.single_process import Processes


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained, by name, in the model's order; a shared one once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@dataclass(frozen=True)
class OptimizerPart:
    """Parameters that one optimiser updates."""

    kinds: tuple[str, ...]
    """Sections, in the order of its parameters."""
    matrices: bool
    """Whether its parameters are those of `Weights.matrices`, else those of `Weights.updated`."""
    state: tuple[str, ...]
    """Names of the tensors in the state of a parameter."""


class Weights:
    """Parameters of `model` in the compute dtype, with float32 master weights that the optimiser updates.

    In float32 the model's parameters are the master weights. In bf16 the master weights are separate: an update of
    relative size 1e-3 would vanish in bf16's 8 bits of mantissa (Micikevicius et al. 2018).

    Every process has all of them. `training.sharding` has the forms that divide them among the processes.
    """

    training_model: Any
    """The model of the training steps: `model` itself, except if its parameters are divided."""
    dtype: torch.dtype
    """Of the forward and backward pass."""
    divided = False
    """Whether each process updates only a part of the weights."""
    lockstep = False
    """Whether all processes must run the same number of micro-batches, since each one exchanges parameters."""
    exchange: Exchange | None = None
    """How the tensors of `hidden` become matrices for Muon; None if they are matrices."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, ema: float) -> None:
        self.training_model = model
        named = trained_parameters(model)
        self.layout = layout_of(named)
        device = next(iter(named.values())).device
        self.flat_masters = torch.zeros(self.layout.length, device=device)
        self.masters = self.layout.parts(self.flat_masters)
        with torch.no_grad():
            torch._foreach_copy_(self.masters, list(named.values()))
        model.to(dtype)
        self.dtype = dtype
        self.separate = dtype != torch.float32
        self.flat_computing = self.flat_masters.to(dtype)  # the same tensor in float32
        self.computing = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.compute_with(self.flat_computing)
        self.gradient = torch.zeros_like(self.flat_masters)
        self.gradients = self.layout.parts(self.gradient)
        self.flat_masters.grad = self.gradient
        self.gradient_is_old = True
        self.exchange = FlatMatrices(self.layout, HIDDEN)
        self.decay = ema
        self.flat_average = self.flat_masters.clone() if ema else None
        self.updates = 0
        self.copies = [(self.flat_masters, self.flat_computing, self.flat_average)]
        """Master weights with their compute copy and average: whole, or in the parts that the optimiser updates."""

    @property
    def average(self) -> list[Tensor]:
        """The averaged parameters; empty without averaging."""
        return [] if self.flat_average is None else self.layout.parts(self.flat_average)

    # --- what the optimiser updates: float32 tensors with their gradients in `grad`

    @property
    def everything(self) -> list[Tensor]:
        """All entries that this process updates, as few tensors as possible."""
        return [self.flat_masters]

    def updated(self, kind: str) -> list[Tensor]:
        """The entries of a section that this process updates elementwise."""
        part = self.flat_masters[self.layout.sections[kind]]
        part.grad = self.gradient[self.layout.sections[kind]]
        return [part]

    def matrices(self, kind: str) -> dict[str, Tensor]:
        """The matrices of a section that this process updates, or its rows of them, by name, in the model's order."""
        named = {}
        names = self.layout.names(kind)
        for name, master, gradient in zip(self.layout.shapes, self.masters, self.gradients, strict=True):
            if name in names:
                master.grad = gradient
                named[name] = master
        return named

    def update_in(self, parts: list[Tensor]) -> None:
        """Divide the copies like the parts that the optimiser updates: in one compiled graph, tensors that overlap
        without being equal could not be updated in place."""
        places = [slice(part.storage_offset(), part.storage_offset() + part.numel()) for part in parts]
        average = self.flat_average
        self.copies = [
            (self.flat_masters[place], self.flat_computing[place], None if average is None else average[place])
            for place in places
        ]

    def hidden(self) -> list[Tensor]:
        """The hidden matrices as Muon updates them, see `exchange`."""
        return self.updated(HIDDEN)

    def saved_states(self, states: list[State], part: OptimizerPart) -> list[State]:
        """Convert an optimiser's states to those of single parameters, for a checkpoint; those of matrices in the
        model's order."""
        if part.kinds != (HIDDEN,) or not part.matrices:
            return states
        (flat,) = states
        return [
            dict(zip(part.state, tensors, strict=True))
            for tensors in zip(*(self.layout.named(HIDDEN, flat[key]).values() for key in part.state), strict=True)
        ]

    def load_states(self, optimizer: StatefulOptimizer, saved: list[State], part: OptimizerPart) -> None:
        """Load the result of `saved_states`. Raises ValueError if it does not fit."""
        if part.kinds == (HIDDEN,) and part.matrices:
            if any(not set(part.state) <= set(state) for state in saved):
                raise ValueError("the state is of another optimiser")
            flat = {key: torch.zeros_like(tensor) for key, tensor in optimizer.state[0].items()}
            for key in part.state:
                views = self.layout.named(HIDDEN, flat[key]).values()
                for view, state in zip(views, saved, strict=True):
                    if view.shape != state[key].shape:
                        raise ValueError("the state is of other parameters")
                    view.copy_(state[key])
            saved = [flat]
        optimizer.load_state_dict(saved)

    def follow_states(self, optimizer: StatefulOptimizer, part: OptimizerPart, processes: Processes) -> None:
        """Copy the first process's states of an optimiser."""
        for state in optimizer.state_dict():
            for tensor in state.values():
                processes.broadcast_tensor(tensor)

    # --- one step

    def gradients_of(self, loss: Tensor, divisor: float = 1.0) -> list[Tensor]:
        """Return the gradient of loss / divisor for each trained parameter, in the model's order, in the compute dtype;
        frees the graph of `loss`. Raises UserError that names a parameter without gradient."""
        slope = torch.full_like(loss, 1 / divisor if divisor else math.nan)  # without targets there is no mean
        return complete(self.layout, torch.autograd.grad(loss, self.computing, slope, allow_unused=True))

    @torch.no_grad()
    def add(self, gradients: list[Tensor]) -> None:
        """Add a micro-batch's gradients to `gradient` in float32; overwrite it after an update."""
        (self.collect if self.gradient_is_old else self.accumulate)(gradients)
        self.gradient_is_old = False

    def collect(self, gradients: list[Tensor]) -> None:
        """Set `gradient`."""
        if torch.compiler.is_compiling():  # the compiler knows `gradient` alone, not views of it
            self.gradient.copy_(self.layout.flat(gradients))
        else:
            torch._foreach_copy_(self.gradients, gradients)

    def accumulate(self, gradients: list[Tensor]) -> None:
        """Add to `gradient`."""
        if torch.compiler.is_compiling():
            self.gradient.add_(self.layout.flat(gradients))
        else:
            for total, gradient in zip(self.gradients, gradients, strict=True):
                total.add_(gradient)  # foreach would copy all to float32 first

    def follow_first(self, processes: Processes) -> None:
        """Copy the weights of the first process."""
        processes.broadcast_tensor(self.flat_masters)
        if self.separate:
            self.flat_computing.copy_(self.flat_masters)
        if self.flat_average is not None:
            processes.broadcast_tensor(self.flat_average)
        self.updates = processes.broadcast(lambda: self.updates)

    def sum_gradients(self, processes: Processes) -> None:
        """Sum `gradient` over all processes; one without a micro-batch contributes zero."""
        if self.gradient_is_old:
            self.gradient.zero_()
            self.gradient_is_old = False
        processes.all_reduce(self.gradient)

    @torch.no_grad()
    def gradient_norm(self) -> Tensor:
        """Return the L2 norm of the whole gradient, scalar float32, equal in all processes."""
        # One sum of 100 million squares in float32 is more than 1 % too small: sum rows, then these.
        rows = torch.linalg.vector_norm(self.gradient.view(-1, ALIGNMENT), dim=1)
        return torch.linalg.vector_norm(rows, dtype=sum_dtype(rows.device)).float()

    def refresh(self, weight: Rate) -> None:
        """Set the compute copy to the master weights, and move the average by a share of `weight` towards them."""
        for master, computing, average in self.copies:
            if self.separate:
                computing.copy_(master)
            if average is not None:
                average.lerp_(master, weight)

    def averaging_weight(self) -> float:
        """Count an update -> the weight of the new master weights in the average."""
        self.updates += 1
        # A ramp-up of the decay keeps the random initialisation out of the average.
        return 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))

    # --- evaluation and checkpoints

    def unaveraged(self) -> AbstractContextManager[None]:
        """Compute with the weights of the training steps inside the context, outside of a step."""
        return nullcontext()

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
        for parameter, part in zip(self.computing, self.layout.parts(flat), strict=True):
            parameter.data = part

    def finite(self) -> bool:
        """Whether all master weights are finite numbers."""
        extremes = self.flat_masters.aminmax()  # NaN if there is one; isfinite would need a second copy of the weights
        return bool(torch.stack(extremes).isfinite().all())

    def saved_weights(self) -> dict[str, Tensor]:
        """Return the weights that are evaluated and saved, float32: the average if one is kept, else the masters."""
        return dict(zip(self.layout.shapes, self.average or self.masters, strict=True))

    def state_dict(self) -> dict[str, object]:
        """Return the state that `saved_weights` does not contain."""
        masters = dict(zip(self.layout.shapes, self.masters, strict=True)) if self.decay else None
        return {"updates": self.updates, "masters": masters, "starts": self.layout.starts}

    @torch.no_grad()
    def load_state_dict(self, state: dict, saved: dict[str, Tensor]) -> None:
        """Restore the results of `state_dict` and `saved_weights`; raises UserError if the layout differs, since the
        optimiser's flat state would then be applied to the wrong parameters."""
        check_layout(state, self.layout)
        self.updates = state["updates"]
        self.fill(self.flat_masters, state["masters"] or saved)
        if self.flat_average is not None:
            self.fill(self.flat_average, saved)
        if self.separate:
            self.flat_computing.copy_(self.flat_masters)

    def fill(self, flat: Tensor, named: dict[str, Tensor]) -> None:
        """Copy named parameters into a flat tensor."""
        torch._foreach_copy_(self.layout.parts(flat), [named[name].to(flat.device) for name in self.layout.shapes])


def complete(layout: Layout, gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the gradients of all parameters of a layout. Raises UserError that names those without one: they would
    keep their initial values."""
    missing = [name for name, gradient in zip(layout.shapes, gradients, strict=True) if gradient is None]
    if missing:
        more = f" and {len(missing) - 1} others" if missing[1:] else ""
        raise UserError(
            f"{missing[0]}{more}: no gradient, because the computed loss does not depend on it; if training works with"
            " trainer.compile=off, the compiled code is wrong"
        )
    return [gradient for gradient in gradients if gradient is not None]


def check_layout(state: dict, layout: Layout) -> None:
    """Raise UserError if a saved state has another layout."""
    if state.get("starts") != layout.starts:
        raise UserError(
            "the checkpoint was written by an older version of this program, which stored the optimiser's state"
            " in another order; generate.py and init_from=… can use its weights, but training cannot resume from it"
        )


def sum_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums of many numbers: float64, where the device has it (Apple GPUs do not)."""
    return torch.float64 if device.type in ("cpu", "cuda") else torch.float32
