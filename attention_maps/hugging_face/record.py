"""Record the attention maps of a transformers model inside a `with` block.

Hooks on the encoder and the decoder note the tokens that are read; our attention function (see `interface`) passes on
queries, keys and values, from which the explicit weights of the chosen layers are computed, in float32.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attention_maps.base.errors import UserError
from attention_maps.files import store
from attention_maps.files.file_names import KINDS
from attention_maps.hugging_face.batch import Batch, Side
from attention_maps.hugging_face.interface import refusal, switched
from attention_maps.hugging_face.labels import Tokenizers
from attention_maps.hugging_face.samples import recording_of
from attention_maps.hugging_face.weights import attention_weights, deviation, is_causal, tolerated
from attention_maps.notebook import Inline, show_recording
from attention_maps.record.recording import Recording

Layers = Collection[int] | Mapping[str, Collection[int]]
"""Chosen layers, counted from 0, of all kinds or by kind: `{"cross": [5]}`."""

CROSS = re.compile(r"cross|enc_?dec|encoder_attn", re.IGNORECASE)
"""Names of cross-attention modules: crossattention, EncDecAttention (T5), encoder_attn (BART)."""


@contextmanager
def record_attention(
    model: nn.Module, tokenizer: Tokenizers = None, *, layers: Layers | None = None
) -> Iterator[Recorded]:
    """Record the attention of every forward pass of a transformers model inside the block, also those of `generate`.

    model: in eval mode and not compiled; decoders, encoders, encoder-decoders. tokenizer: labels the maps (a pair for
    two vocabularies, of source and target); None labels them by numbers. layers: record these alone, counted from 0;
    the others stay on the fused kernels. On exit the model's own attention is restored, also after an error; texts of a
    forward pass that fails are not recorded. Raises UserError for a model that computes its attention itself, and for
    one whose attention is not a softmax of scores.
    """
    recorded = Recorded(core(model), tokenizer, layers)
    with recorded.recording_now():
        yield recorded


def core(model: nn.Module) -> PreTrainedModel:
    """Return the transformers model inside a wrapper, such as DistributedDataParallel. Raises UserError without one."""
    inner = next((module for module in model.modules() if isinstance(module, PreTrainedModel)), None)
    if inner is None:
        raise UserError(f"{type(model).__name__} is not a model of transformers")
    return inner


class Recorded:
    """The maps recorded in a `with record_attention(…)` block; valid during the block and after it."""

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizers, layers: Layers | None) -> None:
        check_layers(layers)
        self.model, self.tokenizer, self.layers = model, tokenizer, layers
        self.batches: list[Batch] = []
        self.deviation = 0.0
        """Largest difference between weights times values and the outputs of the layers, relative to the largest."""
        self.encoder, self.stacks = _stacks(model)
        self._in_encoder = set(self.encoder.modules()) if self.encoder is not None else set()
        self._in_stack = {module for stack in self.stacks for module in stack.modules()}
        self._depth = 0
        """Number of stacks whose forward pass is in progress; one may call another."""
        self._encoding = False
        """Whether the forward pass of the encoder is in progress."""
        self._reading: Batch | None = None
        """What the forward pass in progress reads, which is discarded if the pass fails."""
        self._names = {module: name for name, module in model.named_modules()}
        causal = any(getattr(module, "is_causal", None) is True for module in self._in_stack)
        self._generates = self.encoder is not None or causal
        self._encoded: Batch | None = None
        """What the encoder read last."""
        self._calls: dict[str, int] = {}
        """Number of attention layers of each kind so far in this pass of a stack."""
        self._counts: dict[str, int] = {}
        """Number of attention layers of each kind."""
        self._first: int | None = None
        """The first recorded layer of the decoder."""
        self._cached_key: Tensor | None = None
        """Key of the last token [B,H,D] in that layer, by which the texts of a cache are recognised."""

    @property
    def weights(self) -> dict[tuple[str, int], Tensor]:
        """Return the maps of the last batch, {(kind, layer): [B,H,Q,K] float32}, with those of padding."""
        if not self.batches:
            raise UserError("nothing is recorded: call the model inside the block")
        batch = self.batches[-1]
        return {key: batch.joined(key) for key in batch.maps}

    def recording(self, step: int = 0, names: Collection[str] = ()) -> Recording:
        """Return everything recorded as a `Recording`, one sample for each text, without padding; `names` of the texts
        instead of `text 1`, …"""
        if not self.batches:
            raise UserError("nothing is recorded: call the model inside the block")
        return recording_of(self.batches, self._counts, self.tokenizer, step, self.deviation, list(names))

    def save(self, run_folder: str | Path, step: int = 0, names: Collection[str] = ()) -> Path:
        """Write `recording(step)` into a run folder, `<run>/attention/step_00000000.safetensors`, where the Attention
        tab of `tensorboard --logdir` finds it; return its path."""
        return store.save(self.recording(step, names), run_folder)

    def show(self, **state: Any) -> Inline:
        """Return the Attention tab as the output of a notebook cell; see `show_recording`."""
        return show_recording(self.recording(), **state)

    @contextmanager
    def recording_now(self) -> Iterator[None]:
        """Record what happens in the block."""
        hooks = [
            self.model.register_forward_pre_hook(self._model_starts),
            self.model.register_forward_hook(self._model_ends, with_kwargs=True, always_call=True),
        ]
        for stack in self.stacks:
            hooks.append(stack.register_forward_pre_hook(self._stack_starts, with_kwargs=True))
            hooks.append(stack.register_forward_hook(self._stack_ends, always_call=True))
        if self.encoder is not None:
            hooks.append(self.encoder.register_forward_pre_hook(self._encoder_starts, with_kwargs=True))
            hooks.append(self.encoder.register_forward_hook(self._encoder_ends, always_call=True))
        try:
            with switched(self.model, self.see):
                yield
        finally:
            self._discard_interrupted()
            for hook in hooks:
                hook.remove()

    def _model_starts(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._discard_interrupted()
        self._reading = None

    def _discard_interrupted(self) -> None:
        """Forget a pass that Ctrl-C has ended: torch calls hooks after an Exception only."""
        if self._depth or self._encoding:
            self._depth, self._encoding = 0, False
            self._discard()

    def _discard(self) -> None:
        """Forget what the pass that has failed was reading: some layers, or the loss, are missing."""
        self.batches = [batch for batch in self.batches if batch is not self._reading]
        if self._encoded is self._reading and self._encoded is not None and self._encoded.target is None:
            self._encoded = None
        self._reading = None

    def _encoder_starts(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._reading = None
        arguments = _arguments(module, args, kwargs)
        self._encoded = self._reading = Batch(source=Side())
        assert self._encoded.source is not None
        self._encoded.source.read(arguments.get("input_ids"), _length(arguments), arguments.get("attention_mask"))
        self._calls, self._encoding = {}, True
        self.batches.append(self._encoded)

    def _encoder_ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._encoding = False
        if output is None:  # it has failed
            self._discard()

    def _stack_starts(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if self._encoded is None or self._encoded.target is not None:  # otherwise this pass began with the encoder
            self._reading = None
        arguments = _arguments(module, args, kwargs)
        self._calls = {}
        ids, length, mask = arguments.get("input_ids"), _length(arguments), arguments.get("attention_mask")
        if not self._generates:
            self._reading = Batch(source=Side())
            self.batches.append(self._reading)
            assert self._reading.source is not None
            self._reading.source.read(ids, length, mask)
            return
        cache = arguments.get("past_key_values", arguments.get("cache"))
        seen = 0 if cache is None else int(cache.get_seq_length())
        target = self.batches[-1].target if self.batches else None
        if seen and (target is None or target.length != seen):
            known = target.length if target else 0
            raise UserError(
                f"the cache holds {seen} tokens, of which {known} are recorded: record also the pass that fills it"
            )
        if not seen:
            self._begin()
            self._cached_key = None
        self._reading = self.batches[-1]
        target = self._reading.target
        assert target is not None
        target.read(ids, length, mask)

    def _stack_ends(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._depth -= 1
        if output is None and not self._depth:  # it has failed
            self._discard()

    def _begin(self) -> None:
        """Begin a batch of the decoder. Its source is what the encoder read last, which may be decoded repeatedly."""
        encoded = self._encoded
        if encoded is not None and encoded.target is None:
            encoded.target = Side()
        elif encoded is not None:
            self.batches.append(Batch(encoded.source, Side(), encoder=encoded.encoder))
        else:
            self.batches.append(Batch(target=Side()))

    def _model_ends(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Note the predictions of a pass; discard what it read if it has failed."""
        if output is None:
            self._discard()
            return
        try:
            self._check_layers()
            self._predict(kwargs.get("labels") if self.encoder is not None else None, output)
        except Exception:
            self._discard()
            raise

    def _predict(self, labels: Tensor | None, output: Any) -> None:
        """Note the predictions of a pass, if they are those of next tokens."""
        head, logits = self.model.get_output_embeddings(), getattr(output, "logits", None)
        target = self.batches[-1].target
        if head is None or target is None or not isinstance(logits, Tensor) or logits.ndim != 3:
            return
        if logits.shape[-1] == head.weight.shape[0]:  # otherwise labels of tokens, not next tokens
            self.batches[-1].predict(logits, labels)

    def _check_layers(self) -> None:
        """Raise UserError if no layer was seen, or if a chosen layer does not exist: one of a list in no kind, one of a
        kind in this kind."""
        if not self.batches or not self._counts:
            raise refusal(self.model)
        most = max(self._counts.values())
        if wrong_kinds := sorted(set(self._chosen()) - set(KINDS)):
            raise UserError(f"layers={wrong_kinds}: the kinds of layers are {', '.join(KINDS)}")
        for kind, chosen in self._chosen().items():
            count = self._counts.get(kind, 0) if isinstance(self.layers, Mapping) else most
            if wrong := [layer for layer in chosen if layer not in range(count)]:
                there = ", ".join(f"{count} {name}" for name, count in self._counts.items())
                raise UserError(f"layers={wrong}: the model has {there} attention layers, counted from 0")

    def _chosen(self) -> Mapping[str, Collection[int]]:
        """Return the chosen layers by kind; empty if all are recorded."""
        if self.layers is None:
            return {}
        return self.layers if isinstance(self.layers, Mapping) else dict.fromkeys(KINDS, self.layers)

    def _kind(self, module: nn.Module, causal: bool) -> str | None:
        """Return the kind of a layer; None for a layer outside the text, as of an encoder of images."""
        if module in self._in_encoder:
            return "encoder"
        if module not in self._in_stack:
            return None
        crosses = getattr(module, "is_cross_attention", None) or CROSS.search(self._names[module])
        if self._generates and (crosses or (not causal and self.encoder is not None)):
            return "cross"
        if causal:
            return "decoder"
        return None if self._generates else "encoder"

    def see(
        self, module: nn.Module, states: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, output: Tensor, **how: Any
    ) -> Tensor | None:
        """Record one layer of a pass, unless it is not chosen; return its weights [B,H,Q,K]. states: queries, keys and
        values; output: [B,Q,H,D] of the layer's own function."""
        if not self._depth and not self._encoding:  # gradient checkpointing: the backward pass computes layers again
            return None
        causal = is_causal(module, how.get("is_causal"))
        kind = self._kind(module, causal)
        if kind is None or not self.batches:
            return None
        layer = self._calls.get(kind, 0)
        self._calls[kind] = layer + 1
        self._counts[kind] = max(self._counts.get(kind, 0), layer + 1)
        if self.layers is not None and layer not in self._chosen().get(kind, ()):
            return None
        if how.get("dropout"):
            raise UserError("the model is in training mode, with dropout: call model.eval() before recording")
        query, key, value = states
        causal = causal and query.shape[2] > 1
        weights = attention_weights(query, key, mask, causal, how.pop("scaling", None), **how)
        mixed, off = deviation(weights, value, mask, output)
        if off > tolerated(output):
            raise UserError(
                f"the attention of {type(module).__name__} is more than a softmax of scores: its output differs by"
                f" {off:.1%} from weights times values, so these maps would not be the model's"
            )
        self.deviation = float(torch.tensor([self.deviation, off]).max())  # keeps NaN: the model diverged
        batch = self.batches[-1]
        if kind == "encoder":
            batch.encoder.add((kind, layer), weights, mixed)
        else:
            if kind == "decoder":
                weights = self._placed(module, layer, key, weights)
            batch.decoder.add((kind, layer), weights, mixed)
        return weights

    def _placed(self, module: nn.Module, layer: int, key: Tensor, weights: Tensor) -> Tensor:
        """Return weights [B,H,Q,T] with one column for each token so far: a static cache has room for later tokens, a
        sliding one has forgotten the first. Raises UserError if they are not causal."""
        target = self.batches[-1].target
        assert target is not None
        queries, keys, seen = weights.shape[2], weights.shape[3], target.length
        if not seen:
            raise UserError(f"{type(self.model).__name__} was called without tokens")
        self._first = layer if self._first is None else self._first
        if layer == self._first:
            self._check_texts(key, queries, min(keys, seen))
        placed = nn.functional.pad(weights, (seen - keys, 0))  # also cuts, if negative
        if keys > seen:
            placed = weights[..., :seen]
        later = torch.ones(queries, seen, dtype=torch.bool, device=weights.device).triu(seen - queries + 1)
        if bool(placed.masked_select(later).any()):
            raise UserError(f"{type(module).__name__} attends to later tokens: neither a causal decoder nor an encoder")
        return placed

    def _check_texts(self, key: Tensor, queries: int, keys: int) -> None:
        """Raise UserError if the rows of the cache have been exchanged since the last pass, as in beam search."""
        before, self._cached_key = self._cached_key, key[:, :, keys - 1].detach().clone()
        if before is None or keys == queries:
            return
        now = key[:, :, keys - queries - 1]
        if before.shape != now.shape or (before - now).abs().max() > 0.1 * now.abs().max():
            raise UserError(
                "the texts in the cache changed places, as in beam search: generate outside the block, then record one"
                " forward pass that reads what was generated"
            )


def check_layers(layers: Any) -> None:
    """Raise UserError if `layers` chooses no layer, or is not as `Layers`."""
    choices = list(layers.values()) if isinstance(layers, Mapping) else [layers]
    lists = all(isinstance(choice, Collection) and not isinstance(choice, str) for choice in choices)
    numbers = [number for choice in choices for number in choice] if lists else []
    if layers is not None and not (numbers and all(isinstance(number, Integral) for number in numbers)):
        raise UserError(f"layers={layers!r}: give numbers, layers=[4, 11], or numbers by kind, layers={{'cross': [5]}}")


def _stacks(model: PreTrainedModel) -> tuple[nn.Module | None, list[nn.Module]]:
    """Return the encoder, or None, and the decoder or only stack of a model: whichever of these modules is called first
    is given the tokens."""
    if getattr(model.config, "is_encoder_decoder", False):
        encoder, decoder = model.get_encoder(), model.get_decoder()
        if decoder is not model and encoder is not decoder:  # otherwise one half of an encoder-decoder
            return encoder, [decoder]
    return None, list(dict.fromkeys([model, model.base_model, model.get_decoder()]))


def _arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a forward pass by name."""
    bound = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
    return {**bound, **bound.get("kwargs", {})}


def _length(arguments: dict[str, Any]) -> int:
    """Return the number of tokens of a pass; 0 if it reads neither ids nor vectors."""
    read = arguments.get("inputs_embeds") if arguments.get("input_ids") is None else arguments["input_ids"]
    return 0 if read is None else read.shape[1]
