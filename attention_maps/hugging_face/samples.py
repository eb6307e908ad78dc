"""Build a `Recording` from recorded batches of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_maps.base.errors import UserError
from attention_maps.files.header import LARGEST_TENSOR
from attention_maps.hugging_face.batch import Batch, Key, Side
from attention_maps.hugging_face.labels import Tokenizers, labelled, of_sides, pieces
from attention_maps.record.arrays import recording_of_samples, rollouts
from attention_maps.record.recording import KINDS, Prediction, Recording, Sample, Tokens


def recording_of(
    batches: Sequence[Batch],
    counts: Mapping[str, int],
    tokenizers: Tokenizers,
    step: int,
    deviation: float,
    names: Sequence[str],
) -> Recording:
    """Return one sample for each text of the batches. counts: layers of the model, by kind. Raises UserError if a map
    is too large for a file."""
    recorded = [batch for batch in batches if batch.maps]
    numbers = {kind: sorted({layer for batch in recorded for k, layer in batch.maps if k == kind}) for kind in KINDS}
    samples: list[Sample] = []
    for batch in recorded:
        samples += _samples(batch, of_sides(tokenizers), numbers, counts)
    if names and len(names) != len(samples):
        raise UserError(f"{len(names)} names for {len(samples)} texts")
    every = names or [f"text {number}" for number in range(1, len(samples) + 1)]
    named = [replace(sample, name=name) for sample, name in zip(samples, every, strict=True)]
    return replace(
        recording_of_samples(named, step),
        deviation=deviation,
        layer_numbers={kind: tuple(layers) for kind, layers in numbers.items() if layers != list(range(len(layers)))},
    )


def _samples(
    batch: Batch, tokenizers: tuple[Any, Any], numbers: dict[Any, list[int]], counts: Mapping[str, int]
) -> list[Sample]:
    maps = {key: batch.joined(key) for key in sorted(batch.maps)}
    norms = {key: torch.cat(parts, dim=2) for key, parts in batch.norms.items()}
    texts = max(len(weights) for weights in maps.values())
    predicted = batch.predictions()
    samples = []
    for text in range(texts):
        source, source_positions = _side(batch.source, _keys(maps, "encoder", "cross"), text, texts, tokenizers[0])
        length = batch.target.length if batch.target else 0
        target, positions = _side(batch.target, length, text, texts, tokenizers[1])
        gold = None if batch.labels is None else labelled(batch.labels[text].tolist(), tokenizers[1], positions)
        predicts = target.after(1) if gold is None else gold
        weights: dict[Key, np.ndarray] = {}
        strengths: dict[Key, np.ndarray] = {}
        for (kind, layer), every in maps.items():
            key = kind, numbers[kind].index(layer)
            row = text * len(every) // texts
            queries = source_positions if kind == "encoder" else positions
            columns = positions if kind == "decoder" else source_positions
            weights[key] = _halved(every[row][:, queries][:, :, columns])
            strengths[key] = _halved(norms[kind, layer][row][:, queries])
        samples.append(
            Sample(
                reads=target,
                predicts=predicts,
                source=source if source_positions else None,
                losses=() if predicted is None else tuple(_rounded(predicted[2][text][positions[: len(predicts)]])),
                predictions=() if predicted is None else _predictions(predicted, text, positions, tokenizers[1]),
                weights=weights,
                norms=strengths,
                length=len(target),
                source_length=len(source) if source_positions else 0,
                rollout={
                    kind: mixed for kind, mixed in rollouts(weights).items() if len(numbers[kind]) == counts[kind]
                },
            )
        )
    return samples


def _keys(maps: dict[Key, Tensor], *kinds: str) -> int:
    """Return the number of keys in maps of these kinds; 0 if there are none."""
    return next((weights.shape[-1] for (kind, _), weights in maps.items() if kind in kinds), 0)


def _side(side: Side | None, length: int, text: int, texts: int, tokenizer: Any) -> tuple[Tokens, list[int]]:
    """Return the tokens of a side without padding, and their positions; labelled by numbers if they are not known."""
    ids = None if side is None or side.length != length else side.tokens(text, texts)
    positions = side.positions(text, texts, length) if side else list(range(length))
    if ids is not None:
        padding, end = (getattr(tokenizer, name, None) for name in ("pad_token_id", "eos_token_id"))
        while len(positions) > 1 and ids[positions[-1]] == padding and ids[positions[-2]] in (padding, end):
            positions.pop()  # a text of `generate` that ended before the others
    return labelled(ids, tokenizer, positions), positions


def _predictions(
    predicted: tuple[Tensor, Tensor, Tensor], text: int, positions: list[int], tokenizer: Any
) -> tuple[tuple[Prediction, ...], ...]:
    ids, probabilities = predicted[0][text][positions], predicted[1][text][positions]
    return tuple(
        tuple(map(Prediction, row, pieces(row, tokenizer), _rounded(likely)))
        for row, likely in zip(ids.tolist(), probabilities, strict=True)
    )


def _halved(tensor: Tensor) -> np.ndarray:
    """Return float16, as in files. Raises UserError if it is too large for one."""
    if 2 * tensor.numel() > LARGEST_TENSOR:
        raise UserError(f"the maps of {tensor.shape[-1]} tokens are too large for a file: record a shorter text")
    return tensor.half().cpu().numpy()


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values.tolist()]
