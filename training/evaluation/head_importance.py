"""How much worse a model gets without a head: one pass over validation batches for every head, so only when
asked for."""

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
"""Validation batches, spread evenly, that every head is silenced on at most."""


def head_importance(model: GPT | EncoderDecoder, batches: Iterable[Batch]) -> dict[str, list[list[float]]]:
    """Rise of the loss in nats per token when a head adds nothing, `[kind][layer][head]` (Michel et al. 2019, one head
    at a time).

    Below 0: the model is better without it. Heads that do the same work cover for each other, so all may look
    dispensable.
    """
    device = next(model.parameters()).device
    every = list(batches)  # sorted by length for pairs: the first ones alone would be the shortest sentences
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
    """Nats per token."""
    losses = torch.stack([token_losses(model, batch.model_inputs, batch.targets).sum() for batch in batches])
    return math.fsum(losses.tolist()) / sum(batch.target_tokens for batch in batches)
