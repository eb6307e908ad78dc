"""Recordings of weights that other programs have computed: plain arrays, and caches of TransformerLens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attention_maps.base.errors import UserError
from attention_maps.record.head_measures_and_labels import head_labels, head_measures, rollout
from attention_maps.record.recording import KINDS, Key, Kind, Recording, Sample, Tokens

SPECIAL = re.compile(r"<[|\w/ ]+>|\[[A-Z]+\]")
"""Pieces that are taken for special tokens: <s>, <|endoftext|>, [CLS]."""

PATTERNS: dict[str, Kind | None] = {
    r"blocks\.(\d+)\.attn\.hook_pattern": None,  # HookedTransformer, HookedEncoder
    r"encoder\.(\d+)\.attn\.hook_pattern": "encoder",  # HookedEncoderDecoder
    r"decoder\.(\d+)\.attn\.hook_pattern": "decoder",
    r"decoder\.(\d+)\.cross_attn\.hook_pattern": "cross",
}
"""Names of attention weights in a cache of TransformerLens, and their kind; None: decoder if they are causal."""


def recording_of_arrays(
    weights: Any | Mapping[Kind, Any],
    text: Sequence[str] = (),
    source: Sequence[str] | None = None,
    *,
    step: int = 0,
    name: str = "text 1",
    norms: Mapping[Kind, Any] | None = None,
) -> Recording:
    """Return a recording of one text from its attention weights, arrays or tensors [layers, heads, queries, keys].

    weights: of a text alone, of a decoder if they are causal, else of an encoder; or by kind, `{"encoder": …,
    "decoder": …, "cross": …}`. text: the pieces of a text, with both sides those of the decoder's input; source: those
    of the encoder's. A piece that begins a word begins with `▁` or a space. norms: of the head outputs, [layers, heads,
    queries]. Raises UserError if shapes do not match or rows do not sum to 1.
    """
    if not isinstance(weights, Mapping):
        array = _array(weights)
        causal = array.ndim == 4 and array.shape[2] == array.shape[3] and not np.triu(array, 1).any()
        weights = {"decoder" if causal else "encoder": array}
    if source is None and "decoder" not in weights and "cross" not in weights:
        text, source = (), text
    sides = {"text": _tokens(text), "source": _tokens(source or ())}
    maps: dict[Key, np.ndarray] = {}
    strengths: dict[Key, np.ndarray] = {}
    for kind, values in weights.items():
        if kind not in KINDS:
            raise UserError(f"{kind}: no such kind of attention; there are {', '.join(KINDS)}")
        array = _array(values)
        rows, columns = "source" if kind == "encoder" else "text", "text" if kind == "decoder" else "source"
        _check(kind, array, len(sides[rows]), len(sides[columns]))
        for layer, heads in enumerate(array):
            maps[kind, layer] = heads.astype(np.float16)
            if norms and kind in norms:
                strengths[kind, layer] = _array(norms[kind])[layer].astype(np.float16)
    if not maps:
        raise UserError("there are no attention weights")
    sample = Sample(
        reads=sides["text"],
        predicts=sides["text"].after(1),
        source=None if source is None else sides["source"],
        losses=(),
        predictions=(),
        weights=maps,
        norms=strengths,
        name=name,
        length=len(sides["text"]),
        source_length=len(sides["source"]),
        rollout=rollouts(maps),
    )
    return recording_of_samples([sample], step)


def recording_of_cache(
    cache: Mapping[str, Any],
    text: Sequence[str] = (),
    source: Sequence[str] | None = None,
    *,
    row: int = 0,
    step: int = 0,
    name: str = "text 1",
) -> Recording:
    """Return a recording of one text from a cache of TransformerLens: `_, cache = model.run_with_cache(text)`, with
    `text = model.to_str_tokens(text)`.

    row: of the batch. Layers that are not in the cache are left out. Norms of head outputs are taken from `hook_z`.
    Raises UserError like `recording_of_arrays`, and if there are no weights.
    """
    maps: dict[Kind | None, dict[int, np.ndarray]] = {}
    norms: dict[Kind | None, dict[int, np.ndarray]] = {}
    for key in cache.keys():  # noqa: SIM118 (a cache of TransformerLens iterates over its values)
        for pattern, kind in PATTERNS.items():
            if match := re.fullmatch(pattern, key):
                layer = int(match[1])
                maps.setdefault(kind, {})[layer] = _row(cache[key], row, 3)
                outputs = key.replace("hook_pattern", "hook_z")
                if outputs in cache.keys():  # noqa: SIM118
                    heads = _row(cache[outputs], row, 3)  # [Q,H,D]
                    norms.setdefault(kind, {})[layer] = np.linalg.norm(heads.astype(np.float32), axis=-1).T
    if not maps:
        raise UserError("the cache has no attention weights; run_with_cache calls them blocks.0.attn.hook_pattern, …")
    if None in maps:
        causal = not any(np.triu(weights, 1).any() for weights in maps[None].values())
        alone: Kind = "decoder" if causal else "encoder"
        maps, norms = {alone: maps[None]}, {alone: norms.get(None, {})}
    numbers = {kind: sorted(layers) for kind, layers in maps.items()}
    weights: dict[Any, Any] = {kind: np.stack([maps[kind][layer] for layer in numbers[kind]]) for kind in maps}
    strengths: dict[Any, Any] = {
        kind: np.stack([layers[layer] for layer in numbers[kind]])
        for kind, layers in norms.items()
        if layers.keys() == maps[kind].keys()
    }
    recording = recording_of_arrays(weights, text, source, step=step, name=name, norms=strengths)
    partial = {str(kind): tuple(chosen) for kind, chosen in numbers.items() if chosen != list(range(len(chosen)))}
    (sample,) = recording.samples
    known = {kind: mixed for kind, mixed in sample.rollout.items() if kind not in partial}
    return replace(recording, samples=(replace(sample, rollout=known),), layer_numbers=partial)


def together(*recordings: Recording) -> Recording:
    """Return one recording with the samples of all, of the same model at the same step; the first gives the step."""
    first = recordings[0]
    if any(other.layer_numbers != first.layer_numbers for other in recordings):
        raise UserError("recordings of different layers cannot be one recording")
    samples = [sample for recording in recordings for sample in recording.samples]
    return replace(recording_of_samples(samples, first.step), layer_numbers=first.layer_numbers)


def recording_of_samples(samples: Sequence[Sample], step: int) -> Recording:
    """Return a recording of these samples, with the measures and labels of the heads. Raises UserError if they do not
    have the same maps."""
    shapes = [{key: len(heads) for key, heads in sample.weights.items()} for sample in samples]
    if any(shape != shapes[0] for shape in shapes):
        raise UserError("all texts of a recording must have maps of the same layers and heads")
    measures = head_measures(samples)
    losses = [loss for sample in samples for loss in sample.losses]
    loss = sum(losses) / len(losses) if losses else None
    return Recording(step, tuple(samples), measures, head_labels(measures), loss=loss)


def rollouts(weights: Mapping[Key, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the rollout [Q,K] float16 of each kind of self-attention, of the weights [H,Q,K] of all its layers."""
    rollout_by_kind = {}
    for kind in ("encoder", "decoder"):
        layers = [weights[key].mean(axis=0) for key in sorted(weights) if key[0] == kind]
        if layers:
            rollout_by_kind[kind] = rollout(layers).astype(np.float16)
    return rollout_by_kind


def _array(values: Any) -> np.ndarray:
    """Return an array of an array, a list or a tensor of torch on any device."""
    return np.asarray(values.detach().float().cpu() if hasattr(values, "detach") else values)


def _row(values: Any, row: int, axes: int) -> np.ndarray:
    array = _array(values)
    return array[row] if array.ndim > axes else array


def _check(kind: str, array: np.ndarray, rows: int, columns: int) -> None:
    if array.ndim != 4 or array.shape[2:] != (rows, columns):
        raise UserError(
            f"{kind}: weights must be [layers, heads, {rows}, {columns}], one row and column for each piece, but are"
            f" {list(array.shape)}"
        )
    if not np.allclose(array.sum(axis=-1, dtype=np.float64), 1, atol=0.02):
        raise UserError(f"{kind}: rows of attention weights must sum to 1: scores before the softmax are not weights")
    if kind == "decoder" and np.triu(array, 1).any():
        raise UserError("decoder: weights of later tokens must be 0; maps of an encoder are of the kind 'encoder'")


def _tokens(pieces: Sequence[str]) -> Tokens:
    labels = tuple(re.sub("^ ", "▁", piece).replace("\n", "↵").replace("\t", "⇥") for piece in pieces)
    return Tokens(tuple(range(len(labels))), labels, tuple(bool(SPECIAL.fullmatch(piece)) for piece in pieces))
