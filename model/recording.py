"""Recording of attention: `record_attention` makes a model compute attention by its definition and keeps the weights.

Every attention module calls its `attend`, which is `attention`. That is the hook: inside a `with` block a recording
replaces it on each module of a model, and outside of it no weight matrix is kept alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from model.attention import Attention, attention, reference_attention


@dataclass
class AttentionRecording:
    """What the heads did in the last forward pass; keys are (kind, layer), kind is decoder, encoder or cross."""

    weights: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Attention weights [B, H, Q, K] float32: rows are queries and sum to 1."""

    outputs: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """What each head found, [B, H, Q, D] float32: weights @ values, before the output projection."""

    values: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """How much a key adds where it is looked at, [B, H, K] float32: the norm of its value after the head's part of the
    output projection (Kobayashi et al. 2020). A sink that is looked at and adds nothing has a small one."""

    deviation: float = 0.0
    """Largest difference between weights @ values and what the fused kernel gives for the same heads, as a share of
    the largest output: rounding only, or the weights are not those that the model uses."""

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
        """`reference_attention` that remembers; without dropout, whose noise says nothing about the heads."""
        place = module.kind, module.layer
        mixed, weights = reference_attention(query, key, value, causal=causal, key_mask=key_mask)
        self.weights[place] = weights.detach()
        self.outputs[place] = mixed.detach()
        self.values[place] = value_norms(module, value.detach())
        with torch.no_grad():
            fused = attention(query, key, value, causal=causal, key_mask=key_mask).float()
            deviation = (mixed - fused).abs().max() / mixed.abs().max().clamp(min=1e-12)
            self.deviation = float(torch.tensor([self.deviation, deviation]).max())  # NaN stays: the model diverged
        return mixed.to(query.dtype)


def value_norms(module: Attention, value: Tensor) -> Tensor:
    """value [B, Hkv, S, D] to the norm of what each head adds for it, ‖W_O v‖, [B, H, S] float32."""
    parts = module.output.weight.detach().float().unflatten(1, (module.heads, module.head_width))  # [C, H, D]
    gram = torch.einsum("chd,che->hde", parts, parts)  # [H, D, D]: ‖W v‖² = vᵀ (Wᵀ W) v, without vectors of width C
    value = value.float().repeat_interleave(module.heads // module.kv_heads, dim=1)  # [B, H, S, D]
    return torch.einsum("bhsd,hde,bhse->bhs", value, gram, value).clamp(min=0).sqrt()


@contextmanager
def record_attention(model: nn.Module) -> Iterator[AttentionRecording]:
    """Record the attention of every forward pass of `model` (not compiled) inside the block.

    with torch.no_grad(), record_attention(model) as recording:
        model(tokens)
    recording.weights["decoder", 0]  # [B, H, T, T]

    Afterwards the model is as before and only the recording holds the maps. One recording at a time per model.
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


def head_places(model: nn.Module) -> list[tuple[str, int, int]]:
    """(kind, layer, head) of every head, in the order of kinds and layers."""
    modules = [module for module in model.modules() if isinstance(module, Attention)]
    return sorted((module.kind, module.layer, head) for module in modules for head in range(module.heads))


@contextmanager
def silence_head(model: nn.Module, kind: str, layer: int, head: int) -> Iterator[None]:
    """Let one head of `model` (not compiled) add nothing inside the block: its output is zero (Michel et al. 2019).

    Raises LookupError for a head that is not there.
    """
    modules = [module for module in model.modules() if isinstance(module, Attention)]
    found = [module for module in modules if (module.kind, module.layer) == (kind, layer) and head < module.heads]
    if not found:
        raise LookupError(f"no head {head} in {kind} layer {layer}")
    (module,) = found

    def without(query: Tensor, key: Tensor, value: Tensor, **settings: Any) -> Tensor:
        mixed = attention(query, key, value, **settings).clone()  # [B, H, T, D]
        mixed[:, head] = 0
        return mixed

    module.attend = without
    try:
        yield
    finally:
        del module.attend
