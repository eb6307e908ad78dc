"""Record attention: the weights, outputs and values of all heads in a forward pass.

Every attention module calls its attribute `attend`, by default `attention`. `record_attention` replaces this hook on
each module of a model inside a `with` block, by the definition, and stores the weights; outside of the block no weight
matrix is kept alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from model.attention import Attention, attention, reference_attention


@dataclass
class AttentionRecording:
    """Attention of all heads in the last recorded pass; keys are (kind, layer), kind is decoder, encoder or cross."""

    weights: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Attention weights [B, H, Q, K] float32: rows are queries and sum to 1."""

    outputs: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Output of each head, [B, H, Q, D] float32: weights @ values, before the output projection."""

    values: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Value of each key, [B, H, K, D] float32, before the output projection."""

    value_norms: dict[tuple[str, int], Tensor] = field(default_factory=dict)
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
        self.values[place] = value.detach().float().repeat_interleave(module.heads // module.kv_heads, dim=1)
        self.value_norms[place] = value_norms(module, self.values[place])
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
    before = {module: vars(module).get("attend") for module in model.modules() if isinstance(module, Attention)}
    for module in before:
        module.attend = partial(recording._attend, module)
    try:
        yield recording
    finally:
        for module, attend in before.items():
            del module.attend
            if attend is not None:  # guided alignment has replaced the hook too
                module.attend = attend
