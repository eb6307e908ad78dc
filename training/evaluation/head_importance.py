"""Head importance: the loss increase without a head. Optional, as every head takes a pass over validation batches."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from tqdm import tqdm

from attention_maps.record.undisturbed import undisturbed
from data.batches.batch import Batch
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import head_places, silence_head
from training.loss import token_losses

BATCHES = 32
"""Maximum number of validation batches, evenly spaced, on which every head is ablated."""


def head_importance(model: GPT | EncoderDecoder, batches: Iterable[Batch]) -> dict[str, list[list[float]]]:
    """Return the loss increase in nats per token when a head is ablated, `[kind][layer][head]` (Michel et al. 2019, one
    head at a time).

    Negative values: the model is better without the head. Redundant heads compensate for each other, so all of them may
    look dispensable.
    """
    device = next(model.parameters()).device
    every = list(batches)  # pairs are sorted by length, so the first batches have the shortest sentences
    places = sorted({round(number * (len(every) - 1) / (BATCHES - 1)) for number in range(BATCHES)})
    kept = [every[place].to(device) for place in places]
    importance: dict[str, list[list[float]]] = {}
    with undisturbed(model):
        whole = mean_loss(model, kept)
        for kind, layer, head in tqdm(
            head_places(model), desc="head importance", leave=False, disable=None, delay=2, unit="head"
        ):
            with silence_head(model, kind, layer, head):
                rise = mean_loss(model, kept) - whole
            layers = importance.setdefault(kind, [])
            if layer == len(layers):
                layers.append([])
            layers[layer].append(round(rise, 5))
    return importance


def mean_loss(model: GPT | EncoderDecoder, batches: list[Batch]) -> float:
    """Mean loss per token, in nats."""
    losses = torch.stack([token_losses(model, batch.model_inputs, batch.targets).sum() for batch in batches])
    return math.fsum(losses.tolist()) / sum(batch.target_tokens for batch in batches)
