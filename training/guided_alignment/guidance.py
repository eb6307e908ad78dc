"""The loss of guided alignment: cross-entropy of two heads of cross-attention with the alignments of IBM Model 1."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from data.batches.batch import IGNORED, Batch, BatchStream
from data.batches.pairs import PairStream
from model.attention import attention
from model.blocks import CrossDecoderBlock
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from training.config import TrainConfig
from training.guided_alignment.translation_table import TranslationTable, learn_translations
from training.run_folder.loaded_run import Model


class GuidedHead(NamedTuple):
    """A head of cross-attention, and which alignments it learns."""

    layer: int
    head: int
    reads: bool
    """If true, a row attends to the source of the token that it reads; if false, of the token that it predicts."""


def guided_heads(config: ModelConfig, weight: float) -> list[GuidedHead]:
    """Return the two guided heads of a translator; none with a weight (`trainer.guided_alignment`) of 0.

    In the last layer, a head looks for the source of the next token, which helps to predict it. In the layer below, a
    head aligns the token that has just been read, which is easier: that token is known (Chen et al. 2020, section 3).
    """
    if not weight:
        return []
    last = config.layers - 1
    below = GuidedHead(last - 1, 0, reads=True) if last else GuidedHead(0, config.heads - 1, reads=True)
    predicts = GuidedHead(last, 0, reads=False)
    return [predicts] if below[:2] == predicts[:2] else [below, predicts]  # a model may have a single head


class StoredQueries:
    """Takes the place of the hook `attend` of a cross-attention: attends as before, and stores queries and keys."""

    last: tuple[Tensor, Tensor]
    """Queries [B, H, T, D] and keys [B, Hkv, S, D] of the last training batch."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, **settings: Any) -> Tensor:
        """As `attention`."""
        if torch.is_grad_enabled():  # not in evaluation
            self.last = query, key
        return attention(query, key, value, **settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> StoredQueries:
        """Return a hook without tensors: those of a graph cannot be copied, and a copy of the model has its own."""
        return StoredQueries()


class Guidance:
    """Adds the loss of guided alignment to the training loss of a translator."""

    def __init__(self, model: EncoderDecoder, table: TranslationTable, weight: float) -> None:
        self.model, self.table, self.weight = model, table, weight
        self.stored: list[StoredQueries] = []
        """Queries and keys of each decoder layer; all layers have the same hook, so that they are compiled once."""
        for block in model.decoder:
            self.stored.append(StoredQueries())
            cast(CrossDecoderBlock, block).cross_attention.attend = self.stored[-1]

    def loss(self, batch: Batch) -> Tensor:
        """Return the weighted loss for the batch of the last forward pass, in nats, summed over its target tokens.

        A token counts as much as its alignment is certain: of the wanted weights of its row, the sum is at most 1.
        """
        assert batch.source is not None
        total = torch.zeros((), device=batch.source.device)
        for layer, head, reads in guided_heads(self.model.config, self.weight):
            query, key = self.stored[layer].last  # [B, H, T, D], [B, Hkv, S, D]
            with torch.no_grad():
                wanted = self.table.alignment(batch.source, batch.inputs if reads else batch.targets)  # [B, T, S]
                wanted = wanted * (batch.targets != IGNORED).unsqueeze(2)  # a copy made by `in_lockstep` costs nothing
            key = key[:, head * key.shape[1] // query.shape[1]]
            scores = (query[:, head] @ key.transpose(1, 2)).float() / query.shape[-1] ** 0.5  # [B, T, S]
            if batch.source_mask is not None:
                scores = scores.masked_fill(~batch.source_mask.unsqueeze(1), -1e9)  # finite: 0 · -inf is NaN
            total -= (wanted * scores.log_softmax(dim=2)).sum()
        return self.weight * total


def guidance_for(config: TrainConfig, stream: BatchStream, model: Model) -> Guidance | None:
    """Return the guidance of a run, learned from its training pairs; None with `trainer.guided_alignment=0`."""
    weight = config.trainer.guided_alignment
    if not weight:
        return None
    assert isinstance(stream, PairStream)
    assert isinstance(model, EncoderDecoder)
    table = learn_translations(*stream.first_epoch(), model.vocab_size)
    return Guidance(model, table.to(next(model.parameters()).device), weight)
