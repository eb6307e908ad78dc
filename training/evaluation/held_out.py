"""The held-out loss: one full pass over a split."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tqdm import tqdm

from data.batches.batch import Batch
from generation.cuda.host_copy import HostCopy
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.loss import token_losses


@dataclass(frozen=True)
class HeldOutLoss:
    """Cross-entropy of every token of a split."""

    nats: float
    """Sum over all tokens."""
    tokens: int
    bytes: int
    """Length of the same text in UTF-8, which no tokenizer changes."""

    @property
    def per_token(self) -> float:
        """Mean in nats."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """exp of the mean, infinite where that overflows."""
        return math.exp(self.per_token) if self.per_token < 700 else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Comparable between vocabularies."""
        return self.nats / math.log(2) / self.bytes


def held_out_loss(model: GPT | EncoderDecoder, batches: Iterable[Batch], split_bytes: int) -> HeldOutLoss:
    """One full pass: the same tokens every time, each counted once."""
    device = next(model.parameters()).device
    losses, tokens = [], 0
    for batch in tqdm(batches, desc="validation", leave=False, disable=None, delay=2, unit="batch"):
        here = batch.to(device)
        losses.append(HostCopy(token_losses(model, here.model_inputs, here.targets).sum()))
        tokens += batch.target_tokens
    return HeldOutLoss(math.fsum(loss.values() for loss in losses), tokens, split_bytes)
