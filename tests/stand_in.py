"""Stand-in for a device that is neither a CPU nor CUDA, such as Apple's GPU: torch's device `meta`, here with
values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torchgen
import yaml
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

DEVICE = torch.device("meta")

COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default, torch.ops.aten._foreach_copy_.default}
"""Operations that copy between devices."""

INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default}
"""Operations whose indices may be on the CPU."""


class StandIn(TorchDispatchMode):
    """Mode in which each storage on `meta` has a twin on the CPU, and operations compute with the twins.

    Operations fail as on Apple's GPU: with float64, and if torch's kernel table has no MPS kernel. A non-blocking copy
    to the CPU returns wrong values, since nothing waits for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.twins: dict[int, tuple[Any, Any]] = {}
        """The storage on `meta` and its twin, by the address of the former."""
        self.originals: dict[int, Any] = {}
        """The storage on `meta`, by the address of its twin."""
        self.reads = 0
        """Number of times the CPU waited for a value."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_inference_mode_enabled():
            return self.compute(func, args, kwargs)
        if func._can_decompose():  # outside inference mode torch has already decomposed it
            with self:
                return func.decompose(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():  # allows views of tensors from outside
            return self.compute(func, args, kwargs)

    def compute(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the results of an operation, on `meta` unless the CPU is requested or they are numbers."""
        leaves = tree_leaves((args, kwargs))
        outside = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_meta]
        target = kwargs.get("device")
        if not outside and (target is None or torch.device(target) != DEVICE):
            return func(*args, **kwargs)
        if func is torch.ops.aten._fused_sdp_choice.default or not has_kernel(func):
            raise NotImplementedError(f"Could not run '{func}' with arguments from the 'MPS' backend.")
        inside = {id(tensor): self.twin(tensor) for tensor in outside}
        back = {id(inside[id(tensor)]): tensor for tensor in outside}

        def to_twin(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                return inside.get(id(leaf), leaf)
            return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

        results = func(*tree_map(to_twin, args), **tree_map(to_twin, kwargs))
        to_cpu = target is not None and torch.device(target) != DEVICE
        if to_cpu or not isinstance(results, Tensor | tuple | list | None):
            self.reads += 1
            return torch.full_like(results, 77) if kwargs.get("non_blocking") else results
        if func is torch.ops.aten.copy_.default and not args[0].is_meta:
            self.reads += 1
            return args[0]
        from_cpu = any(isinstance(leaf, Tensor) and not leaf.is_meta and leaf.dim() for leaf in leaves)
        if func not in COPIES | INDEXING and from_cpu:
            raise RuntimeError(f"Expected all tensors to be on the same device, but {func} was given some on the CPU")
        return tree_map_only(Tensor, lambda leaf: back[id(leaf)] if id(leaf) in back else self.original(leaf), results)

    def twin(self, tensor: Tensor) -> Tensor:
        """Return the CPU tensor with the values of a tensor on `meta`."""
        storage = self.twins[tensor.untyped_storage()._cdata][1]
        view = torch.empty(0, dtype=tensor.dtype)
        return view.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())

    def original(self, twin: Tensor) -> Tensor:
        """Return the tensor on `meta` for a CPU tensor, creating its storage if necessary."""
        if twin.dtype in (torch.float64, torch.complex64, torch.complex128):
            raise TypeError(
                f"Cannot convert a MPS Tensor to {twin.dtype} dtype as the MPS framework doesn't support it."
            )
        inside = twin.untyped_storage()
        if inside._cdata not in self.originals:
            outside = torch.empty(inside.nbytes(), dtype=torch.uint8, device=DEVICE).untyped_storage()
            self.twins[outside._cdata], self.originals[inside._cdata] = (outside, inside), outside
        view = torch.empty(0, dtype=twin.dtype, device=DEVICE)
        return view.set_(self.originals[inside._cdata], twin.storage_offset(), twin.size(), twin.stride())


class _FromValues(TorchFunctionMode):
    """Support `torch.tensor` onto `meta` and from scalars on `meta`; torch itself would drop the values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not torch.tensor:
            return func(*args, **kwargs)
        values = tree_map_only(Tensor, lambda scalar: scalar.item(), args[0])
        return func(values, **kwargs | {"device": "cpu"}).to(kwargs.get("device", "cpu"))


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """Return a context manager in which the device `meta` computes."""
    generator = SimpleNamespace(get_rng_state=lambda _: torch.get_rng_state(), set_rng_state=lambda state, _: None)
    torch.meta = generator  # type: ignore[attr-defined]  # what `torch.get_device_module` finds
    torch.__future__.set_swap_module_params_on_conversion(True)  # keeps weights tied on the way to `meta`
    try:
        with _FromValues(), StandIn() as device:
            yield device
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
        del torch.meta  # type: ignore[attr-defined]


def has_kernel(func: Any) -> bool:
    """Whether torch has a kernel of this operation for Apple's GPU, according to the table from which torch is
    built."""
    name = func._schema.name.removeprefix("aten::") + (
        f".{func._schema.overload_name}" if func._schema.overload_name else ""
    )
    entry = _table().get(name)
    if entry is None:  # generated from another entry
        return True
    if "structured_delegate" in entry:
        entry = _table()[entry["structured_delegate"]]
    keys = {
        key.strip() for keys in entry.get("dispatch", {"CompositeImplicitAutograd": None}) for key in keys.split(",")
    }
    return "MPS" in keys or any(key.startswith("Composite") for key in keys)


@cache
def _table() -> dict[str, dict[str, Any]]:
    path = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    loader: Callable[[str], Any] = lambda text: yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: E731
    return {entry["func"].split("(")[0]: entry for entry in loader(path.read_text("utf-8"))}
