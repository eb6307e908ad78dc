"""Held-out loss: one full pass over a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor
from tqdm import tqdm

from data.batches.batch import Batch
from data.tokens.lost_characters import BITS
from generation.cuda.host_copy import HostCopy
from training.loss import token_losses
from training.processes.single_process import SINGLE, Processes
from training.run_folder.loaded_run import Model


@dataclass(frozen=True)
class HeldOutLoss:
    """Total cross-entropy of a split."""

    nats: float
    """Sum over all tokens."""
    tokens: int
    bytes: int
    """UTF-8 length of the same text, independent of the tokenizer."""
    lost: int = 0
    """Those of the bytes that the tokenizer loses (see `data.tokens.lost_characters`)."""

    @property
    def per_token(self) -> float:
        """Mean loss per token, in nats."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        """Exponential of the mean loss; infinite on overflow."""
        return perplexity_of(self.per_token)

    @property
    def bits_per_byte(self) -> float:
        """Loss in bits per UTF-8 byte, comparable across vocabularies."""
        return bits_per_byte(self.nats, self.lost, self.bytes)

    @property
    def charged_nats(self) -> float:
        """Total in nats with the charge for lost bytes, comparable across vocabularies."""
        return charged(self.nats, self.lost)

    def metrics(self) -> dict[str, float]:
        """Return the metrics by name."""
        return {"loss": self.per_token, "perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}

    def __str__(self) -> str:
        return f"loss {self.per_token:.4f} | perplexity {self.perplexity:.2f} | {self.bits_per_byte:.4f} bits per byte"


def charged(nats: float, lost: float) -> float:
    """Add the charge for lost bytes to a loss in nats."""
    return nats + lost * BITS * math.log(2)


def bits_per_byte(nats: float, lost: float, size: float) -> float:
    """Return the loss of a text of `size` bytes in bits per byte, `lost` of which the tokenizer loses."""
    return charged(nats, lost) / math.log(2) / size


def perplexity_of(nats: float) -> float:
    """Return the perplexity exp(nats) of a mean loss; infinite on overflow."""
    return math.exp(nats) if nats < 700 else math.inf


def held_out_loss(
    model: Model,
    batches: Iterable[Batch],
    split_bytes: int,
    lost_bytes: int = 0,
    processes: Processes = SINGLE,
    on_batch: Callable[[Batch, Tensor], None] | None = None,
) -> HeldOutLoss:
    """Compute the loss of one full pass, which counts each token once. batches: this process's part of the split.
    split_bytes, lost_bytes: `bytes` and `lost` of the prepared split. on_batch: called with every batch and the losses
    of its tokens in nats, [B, T]."""
    device = next(model.parameters()).device

    def part() -> tuple[list[float], int]:
        losses, tokens = [], 0
        for batch in tqdm(batches, desc="validation", leave=False, disable=None, delay=2, unit="batch"):
            here = batch.to(device)
            of_tokens = token_losses(model, here.model_inputs, here.targets)
            losses.append(HostCopy(of_tokens.sum()))
            if on_batch is not None:
                on_batch(batch, of_tokens)
            tokens += batch.target_tokens
        return [loss.values() for loss in losses], tokens

    parts = processes.gather(part)
    nats = math.fsum(loss for losses, _ in parts for loss in losses)  # independent of the order
    return HeldOutLoss(nats, sum(tokens for _, tokens in parts), split_bytes, lost_bytes)
