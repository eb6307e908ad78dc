"""Predictions of each row of an example: of the model, after each layer (logit lens), and by part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_maps.record.example import Example, Pieces
from attention_maps.record.recording import Prediction
from interpretability.residual_stream import ResidualStream

PREDICTIONS, LENS = 5, 3
"""Number of predicted tokens recorded per row, of the model and of its earlier layers."""


class Readout:
    """Predictions of a batch of examples; padding at the end of a row is ignored."""

    def __init__(self, batch: Sequence[Example], stream: ResidualStream, logits: Tensor, spell: Pieces) -> None:
        """logits: [B,T,V] float32 of the recorded forward pass."""
        self.batch, self.logits, self.spell = batch, logits, spell
        self.best = _most_likely(logits, PREDICTIONS)
        self.layers = [_most_likely(stream.lens(layer), LENS) for layer in sorted(stream.layers)[:-1]]
        ids = self.best[0]  # [B,T,5]
        candidates = torch.cat([ids[..., :1], ids], dim=-1)  # [B,T,N]
        for row, example in enumerate(batch):
            candidates[row, : len(example.next_ids), 0] = torch.tensor(example.next_ids, device=ids.device)
        self.attribution = stream.attribution(candidates)  # [P,B,T,N]
        mean = stream.logits.mean(dim=-1, keepdim=True, dtype=torch.float32)
        self.centred = stream.logits.gather(-1, candidates).float() - mean  # [B,T,N]

    def of(self, row: int) -> dict[str, Any]:
        """Return the fields of a `Sample` that describe the predictions of one example."""
        example = self.batch[row]
        length = len(example.target_ids)
        expected = torch.tensor(example.next_ids, dtype=torch.long, device=self.logits.device)
        losses = F.cross_entropy(self.logits[row, : len(expected)], expected, reduction="none")
        chosen = [tuple(values[row, :length] for values in likely) for likely in (self.best, *self.layers)]
        tokens = torch.cat([ids.flatten() for ids, _ in chosen]).unique().tolist()
        pieces = dict(zip(tokens, self.spell(tokens), strict=True))
        predictions, *lens = (_spelt(ids, probabilities, pieces) for ids, probabilities in chosen)
        return {
            "losses": tuple(round(loss, 5) for loss in losses.tolist()),
            "predictions": predictions,
            "lens": tuple(lens),
            "attribution": self.attribution[:, row, :length].permute(2, 0, 1).cpu().numpy(),  # [N,P,T]
            "logits": self.centred[row, :length].T.cpu().numpy(),  # [N,T]
        }


def _most_likely(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ids and probabilities [B,T,count] of the most likely tokens."""
    values, ids = logits.topk(min(count, logits.shape[-1]), dim=-1)
    return ids, (values - logits.logsumexp(dim=-1, keepdim=True)).exp()


def _spelt(ids: Tensor, probabilities: Tensor, pieces: dict[int, str]) -> tuple[tuple[Prediction, ...], ...]:
    count, tokens = ids.shape[-1], ids.flatten().tolist()
    rounded = np.round(probabilities.flatten().cpu().double().numpy(), 5).tolist()
    made = list(map(Prediction, tokens, map(pieces.__getitem__, tokens), rounded))
    return tuple(tuple(made[start : start + count]) for start in range(0, len(made), count))
