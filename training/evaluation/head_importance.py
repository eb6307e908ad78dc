"""Head importance: the loss increase without a head, on the recorded examples or on validation batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.example import Example
from data.batches.batch import IGNORED, Batch
from interpretability.ablation import ablate_in_copies
from model.attention import Attention
from training.loss import token_losses
from training.run_folder.loaded_run import Model

BATCHES = 32
"""Maximum number of validation batches, evenly spaced, on which every head is ablated."""
TOKENS = 4096
"""Maximum number of tokens in one forward pass over copies of a batch."""


def head_importance(model: Model, batches: Iterable[Batch]) -> dict[str, list[list[float]]]:
    """Return the loss increase in nats per token when one head is ablated, `[kind][layer][head]` (Michel et al. 2019).

    Negative: the model is better without the head. Redundant heads can all look dispensable: each replaces the others.
    """
    device = next(model.parameters()).device
    every = list(batches)  # pairs are sorted by length, so the first batches have the shortest sentences
    spread = sorted({round(number * (len(every) - 1) / (BATCHES - 1)) for number in range(BATCHES)})
    chosen = [every[number].to(device) for number in spread]
    tokens = sum(batch.target_tokens for batch in chosen)
    importance: dict[str, list[list[float]]] = {}
    modules = sorted((m for m in model.modules() if isinstance(m, Attention)), key=lambda m: (m.kind, m.layer))
    with undisturbed(model):
        whole = mean_loss(model, chosen)
        for module in tqdm(modules, desc="head importance", leave=False, disable=None, delay=2, unit="layer"):
            sums = [losses_without(model, module, batch).tolist() for batch in chosen]
            rises = [round(math.fsum(head) / tokens - whole, 5) for head in zip(*sums, strict=True)]
            importance.setdefault(module.kind, []).append(rises)
    return importance


def losses_without(model: Model, module: Attention, batch: Batch) -> Tensor:
    """Return the sum of the losses of a batch, in nats, without each head of one attention module, [H].

    Several copies of a small batch, each without another head, are read in one forward pass: on a CPU this takes a
    third of the time of one pass per head.
    """
    size = batch.inputs.numel() + (0 if batch.source is None else batch.source.numel())
    sums = []
    for heads in torch.arange(module.heads).split(max(1, TOKENS // size)):
        copies = len(heads)
        inputs = tuple(None if side is None else side.repeat(copies, 1) for side in batch.model_inputs)
        with ablate_in_copies(module, heads.tolist()):
            losses = token_losses(model, inputs, batch.targets.repeat(copies, 1))  # [copies * B, T]
        sums.append(losses.unflatten(0, (copies, -1)).sum(dim=(1, 2)))
    return torch.cat(sums)


def example_batch(examples: Sequence[Example], max_tokens: int) -> Batch | None:
    """Return the examples as one batch, each side cut to `max_tokens`, without those that the model wrote itself or
    that predict nothing; None if there are no others."""
    cut = [example.cut(max_tokens) for example in examples if not example.own and len(example.next_ids)]
    if not cut:
        return None
    inputs = pad_sequence([torch.tensor(shortened.target_ids) for shortened in cut], batch_first=True)
    targets = torch.full_like(inputs, IGNORED)
    for row, shortened in enumerate(cut):
        targets[row, : len(shortened.next_ids)] = torch.tensor(shortened.next_ids)
    sources = [torch.tensor(shortened.source_ids) for shortened in cut if shortened.source_ids is not None]
    if not sources:
        return Batch(inputs, targets)
    mask = pad_sequence([torch.ones_like(source) for source in sources], batch_first=True).bool()
    return Batch(inputs, targets, pad_sequence(sources, batch_first=True), None if mask.all() else mask)


def mean_loss(model: Model, batches: list[Batch]) -> float:
    """Return the mean loss per token, in nats."""
    losses = torch.stack([token_losses(model, batch.model_inputs, batch.targets).sum() for batch in batches])
    return math.fsum(losses.tolist()) / sum(batch.target_tokens for batch in batches)
