"""Replace the outputs of single heads (ablation, activation patching), or record them.

The output projection of an attention module reads the outputs of all its heads side by side, [B, T, H · D]. A hook on
its input replaces some of them, whatever function computed them, so that recordings inside the block see the changed
model: a removed head adds nothing to the residual stream. The maps of a removed head are still those that it would
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from model.attention import Attention

Head = tuple[str, int, int]
"""Kind (decoder, encoder or cross), layer and number of a head."""


def head_places(model: nn.Module) -> list[Head]:
    """Return (kind, layer, head) of every head, ordered by kind and layer."""
    return sorted((*place, head) for place, module in _modules(model).items() for head in range(module.heads))


def chosen_heads(model: nn.Module, named: Iterable[tuple[str, int, int | None]]) -> list[Head]:
    """Return the heads that are named, each once; a head of None names all heads of its layer.

    Raises LookupError if a head does not exist.
    """
    modules, heads = _modules(model), set[Head]()
    for kind, layer, head in named:
        module = modules.get((kind, layer))
        if module is None or (head is not None and not 0 <= head < module.heads):
            raise LookupError(f"no {kind} layer {layer}" if head is None else f"no head {head} in {kind} layer {layer}")
        heads |= {(kind, layer, number) for number in (range(module.heads) if head is None else [head])}
    return sorted(heads)


@contextmanager
def replace_head_outputs(model: nn.Module, outputs: Mapping[Head, Tensor | float]) -> Iterator[None]:
    """Replace the outputs of some heads of `model` (not compiled) inside the block.

    outputs: the new output of each head: a number, a vector [D] for all positions, or [T, D] for each position of the
    texts that are read. 0.0 ablates the head (Michel et al. 2019). Raises LookupError if a head does not exist.
    """
    chosen_heads(model, outputs)
    by_place: dict[tuple[str, int], dict[int, Tensor | float]] = {}
    for (kind, layer, head), output in outputs.items():
        by_place.setdefault((kind, layer), {})[head] = output
    hooks = []
    for place, module in _modules(model).items():
        if place in by_place:
            hooks.append(module.output.register_forward_pre_hook(_replacing(by_place[place], module.head_width)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def ablate_in_copies(module: Attention, heads: Sequence[int]) -> Iterator[None]:
    """Ablate, inside the block, a head of one module in each copy of a batch: the module reads len(heads) copies, one
    after the other, and in copy n the output of head heads[n] is 0."""

    def hook(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        mixed = inputs[0].clone()  # [copies * B, T, H · D]
        for copy, head in zip(mixed.chunk(len(heads)), heads, strict=True):
            copy[..., head * module.head_width : (head + 1) * module.head_width] = 0
        return (mixed,)

    handle = module.output.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def record_head_outputs(model: nn.Module) -> Iterator[dict[Head, Tensor]]:
    """Record the output of every head in the last forward pass of `model` (not compiled) inside the block, each
    [B, T, D], before the output projection."""
    outputs: dict[Head, Tensor] = {}

    def keep(place: tuple[str, int], heads: int) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor]) -> None:
            for head, output in enumerate(inputs[0].detach().unflatten(-1, (heads, -1)).unbind(-2)):
                outputs[*place, head] = output

        return hook

    modules = _modules(model).items()
    hooks = [module.output.register_forward_pre_hook(keep(place, module.heads)) for place, module in modules]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def _replacing(outputs: Mapping[int, Tensor | float], width: int) -> Any:
    """Return a hook that replaces the outputs of some heads of a module, each `width` columns of its input."""

    def hook(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        mixed = inputs[0].clone()  # [B, T, H · D]
        for head, output in outputs.items():
            mixed[..., head * width : (head + 1) * width] = output
        return (mixed,)

    return hook


def _modules(model: nn.Module) -> dict[tuple[str, int], Attention]:
    modules = (module for module in model.modules() if isinstance(module, Attention))
    return {(module.kind, module.layer): module for module in modules}
