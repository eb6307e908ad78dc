"""Head importance: the loss increase without a head. Optional: each head takes a pass over validation batches."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from tqdm import tqdm

from attention_maps.record.undisturbed import undisturbed
from data.batches.batch import Batch
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


def mean_loss(model: Model, batches: list[Batch]) -> float:
    """Return the mean loss per token, in nats."""
    losses = torch.stack([token_losses(model, batch.model_inputs, batch.targets).sum() for batch in batches])
    return math.fsum(losses.tolist()) / sum(batch.target_tokens for batch in batches)
