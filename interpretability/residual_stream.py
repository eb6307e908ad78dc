"""Split the residual stream of a forward pass into the contributions of each head, each MLP and the embedding.

A pre-norm transformer only ever adds to the residual stream, so its value before the final norm is the sum of all
parts (Elhage et al. 2021). With the scale of the final norm frozen, the logits are a linear function of each part, and
the contributions of the parts add up to the logit: direct logit attribution. In a post-norm transformer a part passes
through the norm of its own branch and through all later ones; with their scales frozen the same holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from attention_maps.record.recording import Part
from model.attention import Attention
from model.blocks import CrossDecoderBlock, DecoderBlock, EncoderBlock
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

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
    before_norms: dict[nn.Module, Tensor] = field(default_factory=dict)
    """The stream before each norm of `norm_path`, [B, T, C]."""
    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    """The logits, [B, T, V], in the dtype of the model."""

    @property
    def end(self) -> Tensor:
        """Return the stream before the last norm, [B, T, C]."""
        return self.before_norms[norm_path(self.model)[-1].norm]

    @cached_property
    def attentions(self) -> dict[tuple[str, int], Attention]:
        """Return the attention modules of the decoder by (kind, layer), in the order of the forward pass."""
        modules = (module for block in _blocks(self.model) for module in block.modules())
        return {(m.kind, m.layer): m for m in modules if isinstance(m, Attention)}

    def first(self, rows: int, length: int) -> ResidualStream:
        """Return the stream of the first rows of the batch and the first tokens of each."""

        def cut(tensors: dict[Any, Tensor]) -> dict[Any, Tensor]:
            return {key: value[:rows, :length] for key, value in tensors.items()}

        return replace(
            self,
            embedding=self.embedding[:rows, :length],
            heads=cut(self.heads),
            mlps=cut(self.mlps),
            layers=cut(self.layers),
            before_norms=cut(self.before_norms),
            logits=self.logits[:rows, :length],
        )

    def parts(self) -> list[Part]:
        """Return all parts in the order of the forward pass; `bias` is last, and only there if the model has any."""
        parts = [Part("embedding")]
        attentions = self.attentions
        for layer in range(len(_blocks(self.model))):
            for (kind, at), module in attentions.items():
                if at == layer:
                    parts += [Part(kind, layer, head) for head in range(module.heads)]
            parts.append(Part("mlp", layer))
        return [*parts, Part("bias")] if self.model.config.bias or self.model.config.output_bias else parts

    def added(self) -> Iterator[Tensor]:
        """Yield what each part adds to the stream, [B, T, C], in the order of `parts`; without post-norm they sum to
        `end`. One at a time: all parts of a model of the size of GPT-2 would take gigabytes."""
        for part in self.parts():
            yield self._added_by(part)

    def _added_by(self, part: Part) -> Tensor:
        if part.kind == "embedding":
            return self.embedding
        if part.kind == "mlp":
            return self.mlps[part.layer]
        if part.kind == "bias":
            biases = [module.output.bias.float() for module in self.attentions.values() if self.model.config.bias]
            return torch.zeros_like(self.embedding) + sum(biases)
        module = self.attentions[part.kind, part.layer]
        columns = slice(part.head * module.head_width, (part.head + 1) * module.head_width)
        mixed = self.heads[part.kind, part.layer][..., columns]  # [B, T, D]
        return mixed @ module.output.weight[:, columns].float().T

    def attribution(self, tokens: Tensor) -> Tensor:
        """Return the contribution of each part to the logits of `tokens` [B, T, N], each
        minus the mean logit of the vocabulary, [P, B, T, N]. The parts of a token add up to its logit minus the mean.

        Norms are applied with their scale frozen at that of the whole stream; their biases and that of the output
        projection belong to the part `bias`.
        """
        projection, output_bias = self.model.output_weight.float(), self.model.output_bias
        rows = projection[tokens] - projection.mean(dim=0)  # [B, T, N, C]: what a unit of the stream adds to the logits
        bias = torch.zeros_like(rows[..., 0])
        if output_bias is not None:
            bias = output_bias.float()[tokens] - output_bias.float().mean()
        parts, contributions = self.parts(), dict[Part, Tensor]()
        for step in reversed(norm_path(self.model)):  # from the logits back to the embedding
            if isinstance(step.norm, nn.LayerNorm) and step.norm.bias is not None:
                bias = bias + rows @ step.norm.bias.float()
            rows = self._before(step.norm, rows)
            for part in parts:
                if (part.kind, part.layer) in step.after:
                    contributions[part] = torch.einsum("btc,btnc->btn", self._added_by(part), rows)
            if self.model.config.bias:
                for module in (module for place, module in self.attentions.items() if place in step.after):
                    bias = bias + rows @ module.output.bias.float()
        return torch.stack([bias if part.kind == "bias" else contributions[part] for part in parts])

    def _before(self, norm: nn.Module, rows: Tensor) -> Tensor:
        """Return what a unit of the stream before a norm adds to the logits, given the same after it; the transpose of
        `without_scale`, times the scale."""
        x, rows = self.before_norms[norm], rows * cast(Tensor, norm.weight).float()
        if isinstance(norm, nn.LayerNorm):
            x, rows = (vectors - vectors.mean(dim=-1, keepdim=True) for vectors in (x, rows))
        scale = (x.square().mean(dim=-1, keepdim=True) + cast(float, norm.eps)).rsqrt()  # [B, T, 1]
        return rows * scale.unsqueeze(-1)

    def lens(self, layer: int) -> Tensor:
        """Return the logits that the model would give after a layer, [B, T, V]: final norm and output projection
        applied to the stream there (the logit lens, nostalgebraist 2020). The last layer gives the model's own."""
        model = self.model
        norm = model.norm if isinstance(model, GPT) else model.decoder_norm
        wide = {name: parameter.float() for name, parameter in norm.named_parameters()}
        logits = functional_call(norm, wide, self.layers[layer]).float() @ model.output_weight.float().T
        return logits if model.output_bias is None else logits + model.output_bias


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
        model.head.register_forward_hook(
            lambda _, inputs, output: setattr(stream, "logits", output[..., : model.vocab_size])
        ),
    ]
    for step in norm_path(model):
        hooks.append(step.norm.register_forward_hook(_kept(stream.before_norms, step.norm, input_of=True)))
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


class Normed(NamedTuple):
    """A norm between the parts of a model and its logits."""

    norm: nn.Module
    after: list[tuple[str, int]]
    """(kind, layer) of the parts that are added to the stream right before it."""


def norm_path(model: Model) -> list[Normed]:
    """Return the norms through which parts reach the logits, in the order of the forward pass: the final norm alone, or
    in a post-norm decoder those of all branches."""
    branches = branch_norms(_blocks(model))
    if model.config.block == "post_norm":
        norms = [Normed(norm, [place]) for place, norm in branches]
        norms[0].after.insert(0, ("embedding", 0))
        return norms
    final = model.norm if isinstance(model, GPT) else model.decoder_norm
    return [Normed(final, [("embedding", 0), *(place for place, _ in branches)])]


def branch_norms(blocks: Iterable[DecoderBlock | EncoderBlock]) -> list[tuple[tuple[str, int], nn.Module]]:
    """Return (kind, layer) and norm of each branch, in the order of the forward pass; of an MLP, kind is `mlp`."""
    norms: list[tuple[tuple[str, int], nn.Module]] = []
    for layer, block in enumerate(blocks):
        norms.append(((block.attention.kind, layer), block.attention_norm))
        if isinstance(block, CrossDecoderBlock):
            norms.append((("cross", layer), block.cross_norm))
        norms.append((("mlp", layer), block.feed_forward_norm))
    return norms


def without_scale(model: Model, x: Tensor, place: tuple[str, int]) -> Tensor:
    """Apply the linear parts of all norms between the part (kind, layer) and the logits to x [..., C] float32: without
    the division by their scales and the biases."""
    path = norm_path(model)
    first = next(number for number, step in enumerate(path) if place in step.after)
    for step in path[first:]:
        if isinstance(step.norm, nn.LayerNorm):
            x = x - x.mean(dim=-1, keepdim=True)
        x = x * cast(Tensor, step.norm.weight).float()
    return x


def _kept(store: dict[Any, Tensor], key: Any, input_of: bool = False) -> Callable[..., None]:
    """Return a hook that stores a module's output, or its input."""

    def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        store[key] = (inputs[0] if input_of else output).float()

    return hook


def _blocks(model: Model) -> list[DecoderBlock]:
    blocks = model.blocks if isinstance(model, GPT) else model.decoder
    return cast(list[DecoderBlock], list(blocks))
