"""ZeRO 1 (Rajbhandari et al. 2020): master weights, optimiser state and average divided among the processes.

Every process computes with all weights and has the whole gradient of its micro-batches. After the last one, each
process receives the sum of its share of the gradient (reduce-scatter), updates its share of the master weights, and all
exchange the new shares in the compute dtype (all-gather). An all-reduce consists of the same two halves, so that in
float32 the traffic is that of plain data parallelism, and in bf16 three quarters of it.

The share of a process is an equal part of each section of the flat tensors, which suits AdamW. No row of an embedding
or head crosses the border of two shares, which Scion needs. Muon needs whole matrices: for it, the hidden matrices are
arranged so that none crosses a border (`layout_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from training.optimizer.parameter_layout import SECTIONS, layout_of
from training.optimizer.weights_gradients_ema import trained_parameters
from training.processes.single_process import Processes
from training.sharding.sharded_weights import Named, ShardedWeights


class ZeroWeights(ShardedWeights):
    """Whole compute copy and gradient; a share of everything else. In float32 the compute copy contains the masters."""

    def __init__(
        self, model: nn.Module, dtype: torch.dtype, ema: float, processes: Processes, *, whole_matrices: bool
    ) -> None:
        named = trained_parameters(model)
        super().__init__(processes, layout_of(named), ema)
        for parameter in named.values():
            processes.broadcast_tensor(parameter.data)
        self.training_model = model
        self.layout = layout_of(named, processes.world, whole_matrices=whole_matrices)
        flat = torch.zeros(self.layout.length, device=next(iter(named.values())).device)
        with torch.no_grad():
            torch._foreach_copy_(self.layout.parts(flat), list(named.values()))
        model.to(dtype)
        self.dtype = dtype
        self.separate = dtype != torch.float32
        self.flat_computing = flat.to(dtype)  # the same tensor in float32
        self.computing = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.compute_with(self.flat_computing)
        self.gradient = torch.zeros_like(flat)
        self.gradients = self.layout.parts(self.gradient)
        self.own_masters, self.own_average = {}, {} if ema else None
        for kind in SECTIONS:
            share = self.layout.share(kind, processes.rank)
            master = flat[share].clone() if self.separate else flat[share]
            master.grad = self.gradient[share]
            self.own_masters[kind] = [master]
            if self.own_average is not None:
                self.own_average[kind] = [master.clone()]

    def matrices(self, kind: str) -> dict[str, Tensor]:
        """As in Weights."""
        (master,) = self.own_masters[kind]
        assert master.grad is not None
        rows = self.layout.rows(kind, self.processes.rank, master)
        for name, gradient in self.layout.rows(kind, self.processes.rank, master.grad).items():
            rows[name].grad = gradient
        return rows

    @torch.no_grad()
    def sum_gradients(self, processes: Processes) -> None:
        """Sum this process's share of `gradient` over all processes; one without a micro-batch contributes zero."""
        if self.gradient_is_old:
            self.gradient.zero_()
        for kind in SECTIONS:
            processes.reduce_scatter(self.gradient[self.layout.sections[kind]])

    @torch.no_grad()
    def exchange_weights(self) -> None:
        """As in ShardedWeights."""
        self._compute(self.flat_computing, self.own_masters)

    def _compute(self, flat: Tensor, parts: dict[str, list[Tensor]]) -> None:
        """Fill a flat tensor of the compute dtype from the shares of all processes."""
        for kind in SECTIONS:
            share = flat[self.layout.share(kind, self.processes.rank)]
            if share.data_ptr() != parts[kind][0].data_ptr():
                share.copy_(parts[kind][0])
            self.processes.all_gather(flat[self.layout.sections[kind]])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """As in Weights."""
        if self.own_average is None:
            yield
            return
        average = torch.empty_like(self.flat_computing)
        self._compute(average, self.own_average)
        try:
            self.compute_with(average)
            yield
        finally:
            self.compute_with(self.flat_computing)

    def whole(self, kind: str, shards: list[Tensor], *, matrices: bool = False) -> Named:
        """As in ShardedWeights."""
        if matrices:
            share = torch.zeros_like(self.own_masters[kind][0])
            for view, rows in zip(self.layout.rows(kind, self.processes.rank, share).values(), shards, strict=True):
                view.copy_(rows)
        else:
            (share,) = shards
        shares = self.processes.gather_tensors(share)
        return self.layout.named(kind, torch.cat(shares)) if shares else {}

    def parts_of(self, kind: str, named: Named, *, matrices: bool = False) -> Callable[[int], list[Tensor]]:
        """As in ShardedWeights."""
        section = self.layout.sections[kind]
        flat = torch.zeros(section.stop - section.start)
        for name, view in self.layout.named(kind, flat).items():
            if view.shape != named[name].shape:
                raise ValueError("the state is of other parameters")
            view.copy_(named[name])
        shares = flat.view(self.layout.world, -1)
        return lambda rank: list(self.layout.rows(kind, rank, shares[rank]).values()) if matrices else [shares[rank]]
