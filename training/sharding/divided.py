"""Base of the forms of `Weights` of which each process keeps and updates only a part.

A checkpoint does not show how the weights were divided: the first process collects all parts and saves the same format
as a single process, and every process loads its part from it. So a run may be resumed with another number of processes
and another `trainer.shard`, a checkpoint stays one folder with checksums, and generate.py needs to know nothing. The
cost is host memory in the first process for the whole state, 8 to 16 bytes per parameter. The format of
torch.distributed.checkpoint, which each process writes in parallel, is not used: its index is a pickle, and nothing of
a run folder is ever unpickled.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from training.hardware.finite import Applied
from training.optimizer.base import State
from training.optimizer.layout import HIDDEN, SECTIONS, Layout
from training.optimizer.weights import OptimizerPart, Weights, check_layout
from training.processes.processes import Processes

Named = dict[str, Tensor]
"""Whole parameters, or other tensors of their shapes, by the parameter's name."""
Parts = dict[str, list[Tensor]]
"""By section: the tensors of this process that the optimiser updates, or other tensors of their shapes."""


class DividedWeights(Weights):
    """Each process updates only `own_masters`. All methods that concern the whole are collective."""

    own_masters: Parts
    own_average: Parts | None

    def __init__(self, processes: Processes, single: Layout, ema: float) -> None:
        """single: the layout in a single process, which is that of checkpoints."""
        self.processes, self.single = processes, single
        self.decay = ema
        self.updates = 0
        self.gradient_is_old = True

    @abstractmethod
    def whole(self, kind: str, own: list[Tensor], *, matrices: bool = False) -> Named:
        """Collect the parameters of a section on the CPU of the first process; elsewhere the result is empty.

        own: tensors in the order of `updated(kind)`, or, with `matrices`, in that of `matrices()`.
        """

    @abstractmethod
    def own(self, kind: str, named: Named, *, matrices: bool = False) -> list[Tensor]:
        """The inverse of `whole`, in each process, on the CPU."""

    @abstractmethod
    def refresh(self) -> None:
        """Make the training model compute with the current master weights."""

    @property
    def everything(self) -> list[Tensor]:
        """As in Weights."""
        return [part for kind in SECTIONS for part in self.own_masters[kind]]

    def updated(self, kind: str) -> list[Tensor]:
        """As in Weights."""
        return self.own_masters[kind]

    def norm_of_all(self, norm: Tensor) -> Tensor:
        """As in Weights."""
        square = norm.double().square()
        self.processes.add_up(square)
        return square.sqrt().float()

    @torch.no_grad()
    def publish(self, applied: Applied = True) -> None:
        """As in Weights."""
        self.gradient_is_old = True
        if applied is False:
            return
        self.updates += 1
        self.refresh()
        if self.own_average is not None:
            weight = self.averaging_weight(applied)
            for kind in SECTIONS:
                for average, master in zip(self.own_average[kind], self.own_masters[kind], strict=True):
                    average.lerp_(master, weight)

    # --- checkpoints

    def finite(self) -> bool:
        """As in Weights."""
        bad = sum(not bool(part.isfinite().all()) for part in self.everything)
        return self.processes.totals(bad) == [0]

    def best(self) -> Named:
        """As in Weights; empty except in the first process."""
        return self._named(self.own_average or self.own_masters)

    def state_dict(self) -> dict[str, object]:
        """As in Weights; complete only in the first process."""
        masters = self._named(self.own_masters) if self.decay else None
        return {"updates": self.updates, "masters": masters, "starts": self.single.starts}

    @torch.no_grad()
    def load_state_dict(self, state: dict, best: Named) -> None:
        """As in Weights."""
        check_layout(state, self.single)
        self.updates = state["updates"]
        self._fill(self.own_masters, state["masters"] or best)
        if self.own_average is not None:
            self._fill(self.own_average, best)
        self.refresh()

    def _named(self, parts: Parts) -> Named:
        found: Named = {}
        for kind in SECTIONS:
            found |= self.whole(kind, parts[kind])
        return {name: found[name] for name in self.single.shapes if name in found}

    def _fill(self, parts: Parts, named: Named) -> None:
        for kind in SECTIONS:
            for part, source in zip(parts[kind], self.own(kind, named), strict=True):
                part.copy_(source)

    def saved_states(self, states: list[State], part: OptimizerPart) -> list[State]:
        """As in Weights; empty except in the first process."""
        remaining = iter(states)
        found: list[State] = []
        for kind in part.kinds:
            updated = self.matrices() if part.whole_matrices else self.updated(kind)
            own = [next(remaining) for _ in updated]
            named = {
                key: self.whole(kind, [state[key] for state in own], matrices=part.whole_matrices) for key in part.state
            }
            if not self.processes.first:
                continue
            if part.whole_matrices:
                found += [{key: named[key][name] for key in part.state} for name in self.single.names(kind)]
            else:
                rest = {key: value for key, value in own[0].items() if key not in part.state}
                found.append(rest | {key: self._section(kind, named[key]) for key in part.state})
        return found

    def own_states(self, saved: list[State], part: OptimizerPart) -> list[State]:
        """As in Weights."""
        if any(set(part.state) - set(state) for state in saved):
            raise ValueError("the state is of another optimiser")
        if part.whole_matrices:
            names = self.single.names(HIDDEN)
            columns = [
                self.own(HIDDEN, dict(zip(names, (state[key] for state in saved), strict=True)), matrices=True)
                for key in part.state
            ]
            return [dict(zip(part.state, values, strict=True)) for values in zip(*columns, strict=True)]
        found: list[State] = []
        for kind, state in zip(part.kinds, saved, strict=True):
            own = {key: self.own(kind, self._parameters(kind, state[key])) for key in part.state}
            for index in range(len(self.updated(kind))):
                found.append(state | {key: own[key][index] for key in part.state})
        return found

    def _section(self, kind: str, named: Named) -> Tensor:
        """Return a section as one flat tensor in the layout of a single process."""
        whole = self.single.sections[kind]
        flat = torch.zeros(whole.stop - whole.start)
        for name, view in self._parameters(kind, flat).items():
            view.copy_(named[name])
        return flat

    def _parameters(self, kind: str, flat: Tensor) -> Named:
        """Return views of a flat section in the layout of a single process."""
        whole = self.single.sections[kind]
        if flat.shape != (whole.stop - whole.start,):
            raise ValueError("the state is of other parameters")
        return self.single.named(kind, flat)
