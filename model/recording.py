"""Record attention, and replace the outputs of single heads: ablation and activation patching.

Every attention module calls its attribute `attend`, by default `attention`. `record_attention` replaces this hook on
each module of a model inside a `with` block, by the definition, and keeps the weights; outside of the block no weight
matrix is kept alive.

The output projection of an attention module reads the outputs of all its heads side by side, [B, T, H · D]. A hook on
its input replaces some of them, whatever function computed them, so that recordings inside the block see the changed
model: a removed head adds nothing to the residual stream. The maps of a removed head are still those that it would
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from model.attention import Attention, attention, reference_attention

Head = tuple[str, int, int]
"""Kind (decoder, encoder or cross), layer and number of a head."""


@dataclass
class AttentionRecording:
    """Attention of all heads in the last forward pass; keys are (kind, layer), kind is decoder, encoder or cross."""

    weights: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Attention weights [B, H, Q, K] float32: rows are queries and sum to 1."""

    outputs: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Output of each head, [B, H, Q, D] float32: weights @ values, before the output projection."""

    value_vectors: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Value of each key, [B, H, K, D] float32, before the output projection."""

    values: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Norm of each key's contribution when attended to, [B, H, K] float32: its value after the head's part of the
    output projection (Kobayashi et al. 2020). Small for an attention sink that contributes nothing."""

    deviation: float = 0.0
    """Largest difference between weights @ values and the fused kernel's output for the same heads, as a fraction of
    the largest output. More than rounding means that these are not the weights that the model uses."""

    def _attend(
        self,
        module: Attention,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        causal: bool = False,
        key_mask: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """Compute `reference_attention` and store the results; without dropout, which would only add noise."""
        place = module.kind, module.layer
        mixed, weights = reference_attention(query, key, value, causal=causal, key_mask=key_mask)
        self.weights[place] = weights.detach()
        self.outputs[place] = mixed.detach()
        self.value_vectors[place] = value.detach().float().repeat_interleave(module.heads // module.kv_heads, dim=1)
        self.values[place] = value_norms(module, self.value_vectors[place])
        with torch.no_grad():
            fused = attention(query, key, value, causal=causal, key_mask=key_mask).float()
            deviation = (mixed - fused).abs().max() / mixed.abs().max().clamp(min=1e-12)
            self.deviation = float(torch.tensor([self.deviation, deviation]).max())  # max keeps NaN: the model diverged
        return mixed.to(query.dtype)


def value_norms(module: Attention, value: Tensor) -> Tensor:
    """Return ‖W_O v‖ for each head and value, [B, H, S]: the norm of its contribution; value [B, H, S, D] float32."""
    parts = module.output.weight.detach().float().unflatten(1, (module.heads, module.head_width))  # [C, H, D]
    gram = torch.einsum("chd,che->hde", parts, parts)  # [H, D, D]: ‖W v‖² = vᵀ (Wᵀ W) v, without vectors of width C
    return torch.einsum("bhsd,hde,bhse->bhs", value, gram, value).clamp(min=0).sqrt()


@contextmanager
def record_attention(model: nn.Module) -> Iterator[AttentionRecording]:
    """Record the attention of every forward pass of `model` (not compiled) inside the block. Example:

    with torch.no_grad(), record_attention(model) as recording:
        model(tokens)
    recording.weights["decoder", 0]  # [B, H, T, T]

    On exit the model is restored and only the recording holds the maps. One recording at a time per model.
    """
    recording = AttentionRecording()
    modules = [module for module in model.modules() if isinstance(module, Attention)]
    for module in modules:
        module.attend = partial(recording._attend, module)
    try:
        yield recording
    finally:
        for module in modules:
            del module.attend


def head_places(model: nn.Module) -> list[Head]:
    """Return (kind, layer, head) of every head, ordered by kind and layer."""
    return sorted((*place, head) for place, module in _modules(model).items() for head in range(module.heads))


def chosen_heads(model: nn.Module, named: Iterable[tuple[str, int, int | None]]) -> list[Head]:
    """Return the heads that are named, each once; a head of None names all heads of its layer.

    Raises LookupError if a head does not exist.
    """
    modules, found = _modules(model), set[Head]()
    for kind, layer, head in named:
        module = modules.get((kind, layer))
        if module is None or (head is not None and not 0 <= head < module.heads):
            raise LookupError(f"no {kind} layer {layer}" if head is None else f"no head {head} in {kind} layer {layer}")
        found |= {(kind, layer, one) for one in (range(module.heads) if head is None else [head])}
    return sorted(found)


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
def record_head_outputs(model: nn.Module) -> Iterator[dict[Head, Tensor]]:
    """Record the output of every head in the last forward pass of `model` (not compiled) inside the block, each
    [B, T, D], before the output projection."""
    found: dict[Head, Tensor] = {}

    def keep(place: tuple[str, int], heads: int) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor]) -> None:
            for head, output in enumerate(inputs[0].detach().unflatten(-1, (heads, -1)).unbind(-2)):
                found[*place, head] = output

        return hook

    modules = _modules(model).items()
    hooks = [module.output.register_forward_pre_hook(keep(place, module.heads)) for place, module in modules]
    try:
        yield found
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
    found = (module for module in model.modules() if isinstance(module, Attention))
    return {(module.kind, module.layer): module for module in found}
