"""Base class of sharded weights: each process stores and updates one shard.

A checkpoint does not show how the weights were divided: the main process collects all parts and saves the same format
as a single process, and every process loads its part from it. So a run may be resumed with another number of processes
and another `trainer.shard`, a checkpoint stays one folder with checksums, and generate.py needs to know nothing. The
cost is host memory in the main process for the whole state, 12 to 16 bytes per parameter with AdamW. The format of
torch.distributed.checkpoint, which each process writes in parallel, is not used: its index is a pickle, and nothing of
a run folder is ever unpickled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from training.optimizer.base_class import Rate, State, StatefulOptimizer
from training.optimizer.parameter_layout import HIDDEN, SECTIONS, Layout
from training.optimizer.weights_gradients_ema import OptimizerPart, Weights, check_layout
from training.processes.single_process import Processes

Named = dict[str, Tensor]
"""Whole parameters, or other tensors of their shapes, by the parameter's name."""
Parts = dict[str, list[Tensor]]
"""By section: the tensors of this process that the optimiser updates, or other tensors of their shapes."""


class ShardedWeights(Weights):
    """Each process updates only `own_masters`. All methods that concern the whole are collective."""

    divided = True
    own_masters: Parts
    own_average: Parts | None

    def __init__(self, processes: Processes, single: Layout, ema: float) -> None:
        """single: the layout in a single process, which is that of checkpoints."""
        self.processes, self.single = processes, single
        self.decay = ema
        self.updates = 0
        self.gradient_is_old = True
        self.loaded: tuple[Named, Named] | None = None
        """Whole masters and average that the main process has loaded, until `follow_first`."""
        self.loaded_states: dict[OptimizerPart, list[State]] = {}
        """Whole optimiser states, likewise."""

    @abstractmethod
    def whole(self, kind: str, shards: list[Tensor], *, matrices: bool = False) -> Named:
        """Collect the parameters of a section on the CPU of the main process; elsewhere the result is empty.

        shards: tensors in the order of `updated(kind)`, or, with `matrices`, in that of `matrices(kind)`.
        """

    @abstractmethod
    def parts_of(self, kind: str, named: Named, *, matrices: bool = False) -> Callable[[int], list[Tensor]]:
        """The inverse of `whole`: return a function from the rank of a process to its tensors, on the CPU. Raises
        ValueError if the parameters have other shapes."""

    @abstractmethod
    def exchange_weights(self) -> None:
        """Make the training model compute with the current master weights."""

    @property
    def everything(self) -> list[Tensor]:
        """As in Weights."""
        return [part for kind in SECTIONS for part in self.own_masters[kind]]

    def updated(self, kind: str) -> list[Tensor]:
        """As in Weights."""
        return self.own_masters[kind]

    def hidden(self) -> list[Tensor]:
        """As in Weights."""
        return list(self.matrices(HIDDEN).values())

    def update_in(self, parts: list[Tensor]) -> None:
        """Nothing: `refresh` exchanges whole shares."""

    def gradient_norm(self) -> Tensor:
        """As in Weights."""
        chunks = [chunk for part in self.everything if part.grad is not None for chunk in _norm_chunks(part.grad)]
        square = torch.nn.utils.get_total_norm(chunks).double().square()
        self.processes.all_reduce(square)
        return square.sqrt().float()

    @torch.no_grad()
    def refresh(self, weight: Rate) -> None:
        """As in Weights."""
        self.exchange_weights()
        if self.own_average is not None:
            for kind in SECTIONS:
                for average, master in zip(self.own_average[kind], self.own_masters[kind], strict=True):
                    average.lerp_(master, weight)

    # --- checkpoints

    def finite(self) -> bool:
        """As in Weights."""
        bad = sum(not bool(part.isfinite().all()) for part in self.everything)
        return self.processes.sum_over_processes(bad) == [0]

    def saved_weights(self) -> Named:
        """As in Weights; empty except in the main process."""
        return self._named(self.own_average or self.own_masters)

    def state_dict(self) -> dict[str, object]:
        """As in Weights; complete only in the main process."""
        masters = self._named(self.own_masters) if self.decay else None
        return {"updates": self.updates, "masters": masters, "starts": self.single.starts}

    def load_state_dict(self, state: dict, saved: Named) -> None:
        """As in Weights, in the main process; `follow_first` gives every process its part."""
        check_layout(state, self.single)
        self.updates = state["updates"]
        saved = dict(saved)  # the caller clears its own, to free the memory
        self.loaded = state["masters"] or saved, saved

    @torch.no_grad()
    def follow_first(self, processes: Processes) -> None:
        """As in Weights."""
        if not processes.broadcast(lambda: self.loaded is not None):
            return
        masters, average = self.loaded or ({}, {})
        for kind in SECTIONS:
            self._scatter(kind, masters, self.own_masters[kind])
            if self.own_average is not None:
                self._scatter(kind, average, self.own_average[kind])
        self.updates = processes.broadcast(lambda: self.updates)
        self.loaded = None
        self.exchange_weights()

    def _scatter(self, kind: str, named: Named, into: list[Tensor], *, matrices: bool = False) -> None:
        """Give each process its part of whole tensors, which the main process has. Collective.

        into: tensors in the order of `updated(kind)`, or, with `matrices`, in that of `matrices(kind)`.
        """
        parts = self.parts_of(kind, named, matrices=matrices) if named else None

        def part_of(rank: int) -> Tensor:
            assert parts is not None, "called in the main process only"
            return torch.cat([torch.empty(0), *(part.reshape(-1) for part in parts(rank))])

        sizes = [tensor.numel() for tensor in into]
        flat = torch.empty(sum(sizes), device=self.everything[0].device)
        self.processes.scatter_tensors(part_of, flat)
        for tensor, part in zip(into, flat.split(sizes), strict=True):
            tensor.copy_(part.view(tensor.shape))

    def _named(self, parts: Parts) -> Named:
        named: Named = {}
        for kind in SECTIONS:
            named |= self.whole(kind, parts[kind])
        return {name: named[name] for name in self.single.shapes if name in named}

    def saved_states(self, states: list[State], part: OptimizerPart) -> list[State]:
        """As in Weights; empty except in the main process."""
        saved: list[State] = []
        for kind, shards in self._by_kind(states, part).items():
            named = {
                key: self.whole(kind, [state[key] for state in shards], matrices=part.matrices) for key in part.state
            }
            if not self.processes.is_main:
                continue
            if part.matrices:
                saved += [{key: named[key][name] for key in part.state} for name in self.single.names(kind)]
            else:
                rest = shards[0] if shards else {"step": torch.zeros(())}
                saved.append(rest | {key: self._section(kind, named[key]) for key in part.state})
        return saved

    def load_states(self, optimizer: StatefulOptimizer, saved: list[State], part: OptimizerPart) -> None:
        """As in Weights, in the main process; `follow_states` gives every process its part."""
        count = len(self.single.names(part.kinds[0])) if part.matrices else len(part.kinds)
        if len(saved) != count or any(not set(part.state) <= set(state) for state in saved):
            raise ValueError("the state is of another optimiser")
        for kind in part.kinds:
            for key in part.state:
                self.parts_of(kind, self._loaded_state(saved, part, kind, key), matrices=part.matrices)
        self.loaded_states[part] = saved

    @torch.no_grad()
    def follow_states(self, optimizer: StatefulOptimizer, part: OptimizerPart, processes: Processes) -> None:
        """As in Weights."""
        saved = self.loaded_states.pop(part, None)
        if not processes.broadcast(lambda: saved is not None):
            return
        counts = processes.broadcast(lambda: [float(state.get("step", 0.0)) for state in saved or ()])
        for number, (kind, shards) in enumerate(self._by_kind(optimizer.state_dict(), part).items()):
            for key in part.state:
                named = {} if saved is None else self._loaded_state(saved, part, kind, key)
                self._scatter(kind, named, [state[key] for state in shards], matrices=part.matrices)
            if not part.matrices:
                for state in shards:
                    state["step"].fill_(counts[number])

    def _by_kind(self, states: list[State], part: OptimizerPart) -> dict[str, list[State]]:
        """Return this process's states of the parameters of each section."""
        remaining = iter(states)
        return {
            kind: [next(remaining) for _ in (self.matrices(kind) if part.matrices else self.updated(kind))]
            for kind in part.kinds
        }

    def _loaded_state(self, saved: list[State], part: OptimizerPart, kind: str, key: str) -> Named:
        """Return one tensor of the state for each parameter of a section, from the states in a checkpoint."""
        if part.matrices:
            return dict(zip(self.single.names(kind), (state[key] for state in saved), strict=True))
        return self._parameters(kind, saved[part.kinds.index(kind)][key])

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


def _norm_chunks(gradient: Tensor) -> Sequence[Tensor]:
    """Split a flat gradient into parts whose norms are combined into the total norm. A CPU sums squares in float32: one
    sum of 100 million of them is more than 1 % too small. A GPU sums in many parts."""
    return gradient.split(1 << 18) if gradient.device.type == "cpu" else [gradient]
