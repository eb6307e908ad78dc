"""Head importance: the loss increase without a head, on the recorded examples or on validation batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from attention_maps.record.example import Example
from attention_maps.record.undisturbed import undisturbed
from data.batches.batch import IGNORED, Batch
from model.recording import head_places, silence_head
from training.loss import token_losses
from training.run_folder.loaded_run import Model

BATCHES = 32
"""Maximum number of validation batches, evenly spaced, on which every head is ablated."""


def head_importance(model: Model, batches: Iterable[Batch]) -> dict[str, list[list[float]]]:
    """Return the loss increase in nats per token when one head is ablated, `[kind][layer][head]` (Michel et al. 2019).

    Negative: the model is better without the head. Redundant heads can all look dispensable: each replaces the others.
    """
    device = next(model.parameters()).device
    every = list(batches)  # pairs are sorted by length, so the first batches have the shortest sentences
    spread = sorted({round(number * (len(every) - 1) / (BATCHES - 1)) for number in range(BATCHES)})
    kept = [every[number].to(device) for number in spread]
    importance: dict[str, list[list[float]]] = {}
    with undisturbed(model):
        whole = mean_loss(model, kept)
        places = tqdm(head_places(model), desc="head importance", leave=False, disable=None, delay=2, unit="head")
        for kind, layer, head in places:
            with silence_head(model, kind, layer, head):
                rise = mean_loss(model, kept) - whole
            layers = importance.setdefault(kind, [])
            if layer == len(layers):
                layers.append([])
            layers[layer].append(round(rise, 5))
    return importance


def example_batch(examples: Sequence[Example], max_tokens: int) -> Batch | None:
    """Return the examples as one batch, each side cut to `max_tokens`, without those that the model wrote itself or
    that predict nothing; None if there are no others."""
    cut = [example.cut(max_tokens) for example in examples if not example.own and len(example.next_ids)]
    if not cut:
        return None
    inputs = pad_sequence([torch.tensor(one.target_ids) for one in cut], batch_first=True)
    targets = torch.full_like(inputs, IGNORED)
    for row, one in enumerate(cut):
        targets[row, : len(one.next_ids)] = torch.tensor(one.next_ids)
    sources = [torch.tensor(one.source_ids) for one in cut if one.source_ids is not None]
    if not sources:
        return Batch(inputs, targets)
    mask = pad_sequence([torch.ones_like(source) for source in sources], batch_first=True).bool()
    return Batch(inputs, targets, pad_sequence(sources, batch_first=True), None if mask.all() else mask)


def mean_loss(model: Model, batches: list[Batch]) -> float:
    """Return the mean loss per token, in nats."""
    losses = torch.stack([token_losses(model, batch.model_inputs, batch.targets).sum() for batch in batches])
    return math.fsum(losses.tolist()) / sum(batch.target_tokens for batch in batches)
