"""FSDP2 (`torch.distributed.fsdp.fully_shard`): everything divided among the processes, for models that outgrow a GPU.

There are two models with the same definition. The training model has float32 parameters of which each process keeps
some rows (DTensors): they are the master weights. Before a block is used, `fully_shard` collects its parameters in the
compute dtype, and frees them afterwards; the gradients are summed in float32, and each process receives its rows.
Embeddings, head and final norm stay collected for the whole step, because the loss reads the head's weight after the
model's forward pass.

The model that was passed in is the one that evaluation, samples and attention maps use. It has no parameters during
training; inside `averaged` each process collects all of them in the compute dtype. So everything outside the training
step works on plain tensors, also if only one process does it, and the definitions in `model/` know nothing
about processes. The price: for an evaluation the weights must fit one GPU in bf16, without gradients and optimiser
state, and for the final test in float32.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from model.attention import CrossAttention
from model.blocks import blocks_of
from training.optimizer.parameter_layout import HIDDEN, SECTIONS, layout_of
from training.optimizer.weights_gradients_ema import complete, trained_parameters
from training.processes.single_process import Processes
from training.run_folder.loaded_run import Model
from training.sharding.sharded_weights import Named, Parts, ShardedWeights


class FullyShardedWeights(ShardedWeights):
    """Each process keeps and updates some rows of every parameter."""

    lockstep = True

    def __init__(self, model: Model, device: torch.device, dtype: torch.dtype, ema: float, processes: Processes):
        """model: on the CPU, since it may not fit the device."""
        named = trained_parameters(model)
        super().__init__(processes, layout_of(named), ema)
        for parameter in named.values():
            processes.broadcast_tensor(parameter.data)
        self.layout = self.single
        self.device, self.dtype = device, dtype
        # A copy that shares the parameters, which `fully_shard` replaces in the copy.
        self.training_model = copy.deepcopy(model, {id(parameter): parameter for parameter in named.values()})
        shard(self.training_model, device, dtype)
        self.evaluated = named
        self.release()
        model.to(device)  # the tables of positions
        self.sharded = trained_parameters(self.training_model)
        self.rows = {name: _local(parameter) for name, parameter in self.sharded.items()}
        self.own_masters = {kind: [self.rows[name] for name in self.single.names(kind)] for kind in SECTIONS}
        self.own_average: Parts | None = None
        if ema:
            self.own_average = {kind: [row.clone() for row in rows] for kind, rows in self.own_masters.items()}
        self.exchange = RowExchange([self.single.shapes[name] for name in self.single.names(HIDDEN)], processes)

    def release(self) -> None:
        """Free the parameters of the evaluated model, which keep their shapes."""
        # bfloat16: `Module.float`, before other weights are loaded, then allocates real tensors.
        zero = torch.zeros((), device=self.device, dtype=torch.bfloat16)
        for parameter in self.evaluated.values():
            parameter.data = zero.expand(parameter.shape)

    def matrices(self, kind: str) -> dict[str, Tensor]:
        """This process's rows of the matrices of a section."""
        return dict(zip(self.single.names(kind), self.own_masters[kind], strict=True))

    def gradients_of(self, loss: Tensor, divisor: float = 1.0) -> list[Tensor]:
        """As in Weights: this process's rows of the gradients, float32. `fully_shard` sums them over the processes."""
        try:
            slope = torch.full_like(loss, 1 / divisor if divisor else math.nan)
            loss.backward(slope)  # its hooks need `backward`, which leaves the sums in `grad`
            gradients = complete(self.layout, [parameter.grad for parameter in self.sharded.values()])
        finally:
            for parameter in self.sharded.values():
                parameter.grad = None
        return [_local(gradient) for gradient in gradients]

    @torch.no_grad()
    def add(self, gradients: list[Tensor]) -> None:
        """As in Weights."""
        for rows, gradient in zip(self.rows.values(), gradients, strict=True):
            rows.grad = gradient if self.gradient_is_old or rows.grad is None else rows.grad.add_(gradient)
        self.gradient_is_old = False

    def sum_gradients(self, processes: Processes) -> None:
        """Nothing: the gradients are sums over the processes."""

    def exchange_weights(self) -> None:
        """Nothing: the parameters of the training model are the master weights. Frees the gradients."""
        for rows in self.rows.values():
            rows.grad = None

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """As in Weights."""
        with self._evaluating(self.own_average or self.own_masters):
            yield

    def unaveraged(self) -> AbstractContextManager[None]:
        """As in Weights."""
        return self._evaluating(self.own_masters)

    @contextmanager
    def _evaluating(self, parts: Parts) -> Iterator[None]:
        """Collect all parameters of the evaluated model inside the context."""
        try:
            with torch.no_grad():
                for kind in SECTIONS:
                    for name, rows in zip(self.single.names(kind), parts[kind], strict=True):
                        self.evaluated[name].data = self._collected(name, rows.to(self.dtype))
            yield
        finally:
            self.release()

    def _collected(self, name: str, rows: Tensor) -> Tensor:
        """Return a whole parameter in all processes."""
        like = self.sharded[name]
        assert isinstance(like, DTensor)
        whole = DTensor.from_local(rows, like.device_mesh, like.placements, shape=like.shape, stride=like.stride())
        return whole.full_tensor()

    @torch.no_grad()
    def whole(self, kind: str, shards: list[Tensor], *, matrices: bool = False) -> Named:
        """As in ShardedWeights."""
        tensors: Named = {}
        for name, rows in zip(self.single.names(kind), shards, strict=True):
            collected = self._collected(name, rows)
            if self.processes.is_main:
                tensors[name] = collected.cpu()
        return tensors

    def parts_of(self, kind: str, named: Named, *, matrices: bool = False) -> Callable[[int], list[Tensor]]:
        """As in ShardedWeights."""
        names, world = self.single.names(kind), self.processes.world
        if any(named[name].shape != self.single.shapes[name] for name in names):
            raise ValueError("the state is of other parameters")
        return lambda rank: [_rows(named[name], rank, world) for name in names]


def shard(model: Model, device: torch.device, dtype: torch.dtype) -> None:
    """Divide the parameters of `model` among all processes, in place, block by block."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(
        param_dtype=None if dtype == torch.float32 else dtype,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,  # the rotation stays float32, as without sharding
    )
    units: list[nn.Module] = []
    for block in blocks_of(model):
        for module in block.modules():
            if isinstance(module, CrossAttention):  # `keys_values` is called before the block
                units.append(module.key_value)
                if module.query_key_norm is not None:
                    units.append(module.query_key_norm)
        units.append(block)
    for unit in units:
        fully_shard(unit, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)  # the loss reads the head's weight
    register_fsdp_forward_method(model, "features")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # The loss is divided by the tokens of all processes: gradients are summed, not averaged.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


class RowExchange:
    """Assembles the hidden matrices for Muon, each in one process (see `training.optimizer.muon.Exchange`)."""

    def __init__(self, shapes: list[torch.Size], processes: Processes) -> None:
        self.shapes, self.processes = shapes, processes
        loads = [0] * processes.world
        self.owners = [0] * len(shapes)
        for index in sorted(range(len(shapes)), key=lambda index: -shapes[index].numel()):
            self.owners[index] = loads.index(min(loads))
            loads[self.owners[index]] += shapes[index].numel()

    def to_owners(self, rows: list[Tensor]) -> dict[int, Tensor]:
        """As in Exchange."""
        sent = [
            [part for part, owner in zip(rows, self.owners, strict=True) if owner == rank]
            for rank in range(self.processes.world)
        ]
        mine = [index for index, owner in enumerate(self.owners) if owner == self.processes.rank]
        expected = [[self._shape(index, rank) for index in mine] for rank in range(self.processes.world)]
        received = self.processes.all_to_all(sent, expected, rows[0])
        return {index: torch.cat([parts[place] for parts in received]) for place, index in enumerate(mine)}

    def from_owners(self, matrices: dict[int, Tensor], like: Tensor) -> list[Tensor]:
        """As in Exchange."""
        world, rank = self.processes.world, self.processes.rank
        sent = [[_rows(matrices[index], to, world) for index in sorted(matrices)] for to in range(world)]
        theirs = [[index for index, owner in enumerate(self.owners) if owner == other] for other in range(world)]
        shapes = [[self._shape(index, rank) for index in indices] for indices in theirs]
        received = self.processes.all_to_all(sent, shapes, like)
        owned = {
            index: part
            for indices, parts in zip(theirs, received, strict=True)
            for index, part in zip(indices, parts, strict=True)
        }
        return [owned[index] for index in range(len(self.shapes))]

    def _shape(self, index: int, rank: int) -> torch.Size:
        """Return the shape of a process's rows of a matrix."""
        return _rows(torch.empty(self.shapes[index], device="meta"), rank, self.processes.world).shape


def _rows(whole: Tensor, rank: int, world: int) -> Tensor:
    """Return a process's rows of a parameter, as `fully_shard` divides them: the last parts may be shorter."""
    size = -(-len(whole) // world)
    return whole[rank * size : (rank + 1) * size]


@torch.no_grad()
def _local(tensor: Tensor) -> Tensor:
    """Return this process's rows of a DTensor, in the same memory."""
    assert isinstance(tensor, DTensor)
    return tensor.to_local().detach()
