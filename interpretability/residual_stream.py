"""Split the residual stream of a forward pass into what each head, each MLP and the embedding added to it.

A pre-norm transformer only ever adds to the residual stream, so its value before the final norm is the sum of all
parts (Elhage et al. 2021). With the scale of the final norm frozen, the logits are a linear function of each part, and
the contributions of the parts add up to the logit: direct logit attribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from attention_maps.record.recording import Part
from model.attention import Attention
from model.blocks import DecoderBlock
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.layers import RMSNorm

Model = GPT | EncoderDecoder


@dataclass
class ResidualStream:
    """The decoder's residual stream in the last forward pass, float32."""

    model: Model
    embedding: Tensor = field(default_factory=lambda: torch.empty(0))
    """Token vectors, with positions and token shift, [B, T, C]."""
    heads: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """Concatenated head outputs of (kind, layer) before the output projection, [B, T, C]."""
    mlps: dict[int, Tensor] = field(default_factory=dict)
    """Output of the MLP of each layer, [B, T, C]."""
    layers: dict[int, Tensor] = field(default_factory=dict)
    """The stream after each layer, [B, T, C]."""
    end: Tensor = field(default_factory=lambda: torch.empty(0))
    """The stream before the final norm, [B, T, C]."""

    @property
    def attentions(self) -> dict[tuple[str, int], Attention]:
        """Return the attention modules of the decoder by (kind, layer), in the order of the forward pass."""
        modules = (module for block in _blocks(self.model) for module in block.modules())
        return {(m.kind, m.layer): m for m in modules if isinstance(m, Attention)}

    def parts(self) -> list[Part]:
        """Return all parts in the order of the forward pass; `bias` is last, and only there if the model has any."""
        found = [Part("embedding")]
        attentions = self.attentions
        for layer in range(len(_blocks(self.model))):
            for (kind, at), module in attentions.items():
                if at == layer:
                    found += [Part(kind, layer, head) for head in range(module.heads)]
            found.append(Part("mlp", layer))
        return [*found, Part("bias")] if self.model.config.bias else found

    def added(self) -> Iterator[Tensor]:
        """Yield what each part adds to the stream, [B, T, C], in the order of `parts`; they sum to `end`. One at a
        time: all parts of a model of the size of GPT-2 would take gigabytes."""
        attentions = self.attentions
        for part in self.parts():
            if part.kind == "embedding":
                yield self.embedding
            elif part.kind == "mlp":
                yield self.mlps[part.layer]
            elif part.kind == "bias":
                bias = sum(module.output.bias.float() for module in attentions.values())
                yield torch.zeros_like(self.end) + bias
            else:
                module = attentions[part.kind, part.layer]
                columns = slice(part.head * module.head_width, (part.head + 1) * module.head_width)
                mixed = self.heads[part.kind, part.layer][..., columns]  # [B, T, D]
                yield mixed @ module.output.weight[:, columns].float().T

    def attribution(self, tokens: Tensor) -> Tensor:
        """Return the contribution of each part to the logits of `tokens` [B, T, N], each minus the mean logit of the
        vocabulary, [P, B, T, N]. The parts of a token add up to its logit minus the mean logit.

        The final norm is applied with its scale frozen at that of the whole stream; its own bias belongs to the part
        `bias`.
        """
        norm = _final_norm(self.model)
        centred = self.end if isinstance(norm, RMSNorm) else self.end - self.end.mean(dim=-1, keepdim=True)
        scale = (centred.square().mean(dim=-1, keepdim=True) + norm.eps).rsqrt()  # [B, T, 1]
        projection = self.model.output_weight.float()
        rows = projection[tokens] - projection.mean(dim=0)  # [B, T, N, C]
        found = [
            torch.einsum("btc,btnc->btn", without_scale(self.model, added) * scale, rows) for added in self.added()
        ]
        if isinstance(norm, nn.LayerNorm) and norm.bias is not None:
            found[-1] = found[-1] + rows @ norm.bias.float()
        return torch.stack(found)

    def lens(self, layer: int) -> Tensor:
        """Return the logits that the model would give after a layer, [B, T, V]: final norm and output projection
        applied to the stream there (the logit lens, nostalgebraist 2020). The last layer gives the model's own."""
        return _final_norm(self.model)(self.layers[layer]).float() @ self.model.output_weight.float().T


@contextmanager
def record_residual_stream(model: Model) -> Iterator[ResidualStream]:
    """Record the decoder's residual stream of every forward pass of `model` (in eval mode, not compiled) inside the
    block."""
    stream = ResidualStream(model)
    start: nn.Module = model.embedding if isinstance(model, GPT) else model.target_embedding
    if isinstance(model, GPT) and model.token_shift is not None:
        start = model.token_shift
    hooks = [
        start.register_forward_hook(lambda _, inputs, output: setattr(stream, "embedding", output.float())),
        _final_norm(model).register_forward_pre_hook(lambda _, inputs: setattr(stream, "end", inputs[0].float())),
    ]
    for layer, block in enumerate(_blocks(model)):
        hooks.append(block.register_forward_hook(_kept(stream.layers, layer)))
        hooks.append(block.feed_forward.register_forward_hook(_kept(stream.mlps, layer)))
    for place, module in stream.attentions.items():
        hooks.append(module.output.register_forward_hook(_kept(stream.heads, place, input_of=True)))
    try:
        yield stream
    finally:
        for hook in hooks:
            hook.remove()


def without_scale(model: Model, x: Tensor) -> Tensor:
    """Apply the linear part of the final norm to x [..., C] float32: without the division by its scale and the bias."""
    norm = _final_norm(model)
    return (x if isinstance(norm, RMSNorm) else x - x.mean(dim=-1, keepdim=True)) * norm.weight.float()


def _kept(store: dict[Any, Tensor], key: Any, input_of: bool = False) -> Callable[..., None]:
    """Return a hook that stores a module's output, or its input."""

    def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        store[key] = (inputs[0] if input_of else output).float()

    return hook


def _blocks(model: Model) -> list[DecoderBlock]:
    blocks = model.blocks if isinstance(model, GPT) else model.decoder
    return cast(list[DecoderBlock], list(blocks))


def _final_norm(model: Model) -> RMSNorm | nn.LayerNorm:
    return cast(RMSNorm | nn.LayerNorm, model.norm if isinstance(model, GPT) else model.decoder_norm)
