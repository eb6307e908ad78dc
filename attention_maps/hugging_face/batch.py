"""Recorded data of a batch of texts: tokens, maps and predictions, collected over the forward passes that read it.

With a key/value cache, as in `generate`, each pass reads a few more tokens of the same texts. Shapes: B texts, T tokens
of the decoder (or of the only stack), S tokens of the encoder, H heads, Q queries and K keys of one pass, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_maps.hugging_face.weights import visible

PREDICTIONS = 5
"""Number of predicted tokens recorded per row."""

IGNORED = -100
"""Label of rows that have no loss, of padding, in transformers and in PyTorch."""

Key = tuple[str, int]
"""Kind and layer of a map."""


@dataclass
class Side:
    """The tokens of one side of a batch; without ids if the model reads no tokens, but images or vectors."""

    ids: list[Tensor] = field(default_factory=list)
    """[B,Q] of each pass."""
    mask: Tensor | None = None
    """[B,T]: False for padding; None if there is none."""
    length: int = 0
    """Tokens read so far."""

    def read(self, ids: Tensor | None, length: int, mask: Any) -> None:
        """Note the tokens of a pass, `ids` [B,Q], and its mask: of all tokens so far [B,T], of queries and keys
        [B,1,Q,K], as a static cache needs, such masks by type of layer, or None."""
        before, self.length = self.length, self.length + length
        if ids is not None:
            self.ids.append(ids.detach())
        if isinstance(mask, dict):
            mask = mask.get("full_attention")
        if mask is not None and mask.ndim == 2 and mask.shape[1] >= self.length:
            self.mask = mask[:, : self.length].bool()
            return
        new = None
        if mask is not None and mask.ndim == 4 and mask.shape[-1] >= self.length:
            new = visible(mask)[:, 0, :, before : self.length].any(dim=1)  # no query sees padding
        known = new if self.mask is None else self.mask
        if known is not None:
            old = known.new_ones(len(known), before) if self.mask is None else self.mask
            self.mask = torch.cat([old, known.new_ones(len(known), length) if new is None else new], dim=1)

    def positions(self, text: int, texts: int, length: int) -> list[int]:
        """Return the positions of a text that are not padding; `texts` of the batch may share the rows of this side."""
        if self.mask is None or self.mask.shape[1] < length:
            return list(range(length))
        row = self.mask[text * len(self.mask) // texts, :length]
        return row.nonzero().flatten().tolist()

    def tokens(self, text: int, texts: int) -> list[int] | None:
        """Return the ids of a text, with padding; None if the model read no ids."""
        if sum(ids.shape[1] for ids in self.ids) != self.length or not self.ids:
            return None
        ids = torch.cat(self.ids, dim=1)
        return ids[text * len(ids) // texts].tolist()


@dataclass
class Maps:
    """Maps and norms of the head outputs of one or more passes."""

    weights: dict[Key, list[Tensor]] = field(default_factory=dict)
    """[B,H,Q,K] float32."""
    norms: dict[Key, list[Tensor]] = field(default_factory=dict)
    """[B,H,Q] float32."""

    def add(self, key: Key, weights: Tensor, outputs: Tensor) -> None:
        """Keep the maps of a pass; outputs of the heads [B,H,Q,D]."""
        self.weights.setdefault(key, []).append(weights)
        self.norms.setdefault(key, []).append(outputs.norm(dim=-1))

    def joined(self, key: Key) -> Tensor:
        """Return the maps of all passes below each other, [B,H,T,K]; a pass saw no keys of later ones: 0."""
        rows = self.weights[key]
        keys = rows[-1].shape[-1]
        return torch.cat([F.pad(part, (0, keys - part.shape[-1])) for part in rows], dim=2)


@dataclass
class Batch:
    """Texts that are read together."""

    source: Side | None = None
    target: Side | None = None
    encoder: Maps = field(default_factory=Maps)
    """Shared by all batches that are decoded from one pass of the encoder."""
    decoder: Maps = field(default_factory=Maps)
    """Of the kinds decoder and cross."""
    best: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """Ids and probabilities [B,Q,5] of the most likely next tokens, of each pass."""
    losses: list[Tensor] = field(default_factory=list)
    """Loss of the next token in nats, [B,Q]; the next token of the last row of a pass is known in the next pass."""
    last: Tensor | None = None
    """Logits [B,V] of the last row so far."""
    labels: Tensor | None = None
    """Gold next tokens [B,T] of an encoder-decoder, if it was given labels; `IGNORED` in rows of padding."""

    @property
    def norms(self) -> dict[Key, list[Tensor]]:
        """Return the norms of the head outputs of all kinds."""
        return self.encoder.norms | self.decoder.norms

    @property
    def maps(self) -> dict[Key, list[Tensor]]:
        """Return the maps of all kinds."""
        return self.encoder.weights | self.decoder.weights

    def joined(self, key: Key) -> Tensor:
        """Return the maps of a layer over all passes, [B,H,T,K]."""
        return (self.encoder if key[0] == "encoder" else self.decoder).joined(key)

    def predict(self, logits: Tensor, labels: Tensor | None = None) -> None:
        """Note the predictions of a pass, logits [B,Q,V], after `target` has read its tokens."""
        assert self.target is not None
        logits = logits.detach().float()
        if labels is not None and self._are_next_tokens(labels, logits):
            self.labels, real = labels.detach(), labels != IGNORED
            self.target.mask = real if self.target.mask is None else self.target.mask & real
            self.losses = [F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")]
        elif self.target.ids:
            ids = self.target.ids[-1]
            if self.last is not None:
                self.losses.append(F.cross_entropy(self.last, ids[:, 0], reduction="none")[:, None])
            if logits.shape[1] == ids.shape[1]:
                self.losses.append(F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none"))
        self.last = logits[:, -1]
        values, ids = logits.topk(min(PREDICTIONS, logits.shape[-1]), dim=-1)
        self.best.append((ids, (values - logits.logsumexp(dim=-1, keepdim=True)).exp()))

    def _are_next_tokens(self, labels: Tensor, logits: Tensor) -> bool:
        """Whether labels name the next token of each row of whole texts, with padding at their ends alone."""
        assert self.target is not None
        if labels.shape != logits.shape[:2] or labels.shape[1] != self.target.length:
            return False
        real = (labels != IGNORED).int()
        return bool(real[:, 0].all()) and not bool((real.diff(dim=1) > 0).any())

    def predictions(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return ids and probabilities [B,T,5] of the predictions and losses [B,T], or [B,T-1] without labels; None if
        they are not known in every row, as for a prompt of `generate`, of which models compute the last logits."""
        length = self.target.length if self.target else 0
        if not length or sum(ids.shape[1] for ids, _ in self.best) != length:
            return None
        ids, probabilities = (torch.cat(parts, dim=1) for parts in zip(*self.best, strict=True))
        losses = torch.cat([*self.losses, probabilities.new_zeros(len(ids), 0)], dim=1)
        expected = length - 1 if self.labels is None else length
        return (ids, probabilities, losses) if losses.shape[1] == expected else None
