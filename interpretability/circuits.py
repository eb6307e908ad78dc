"""QK and OV circuits of a head, computed from the weights alone (Elhage et al. 2021).

Both are tables token x token of the direct path, from the token embeddings to the head and from the head to the logits:
what other layers add between is left out. Each is a product of two thin matrices, so that a table of a large vocabulary
need never be in memory as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from interpretability.residual_stream import Model, branch_norms, without_scale
from model.attention import CrossAttention, SelfAttention
from model.blocks import CrossDecoderBlock, DecoderBlock, EncoderBlock
from model.embedding import Embedding
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

BLOCK = 1024
"""Rows of a table that are computed at once."""


@dataclass(frozen=True)
class TokenTable:
    """The table rows @ columnsᵀ, [N, M]; rows [N, D] and columns [M, D] float32."""

    rows: Tensor
    columns: Tensor

    def values(self) -> Tensor:
        """Return the whole table, [N, M]."""
        return self.rows @ self.columns.T

    def strongest(self, count: int) -> list[tuple[int, int, float]]:
        """Return the `count` largest entries as (row, column, value), the largest first."""
        entries: list[tuple[float, int, int]] = []
        width = len(self.columns)
        for first in range(0, len(self.rows), BLOCK):
            block = (self.rows[first : first + BLOCK] @ self.columns.T).flatten()
            values, places = block.topk(min(count, len(block)))
            entries += [
                (value, first + place // width, place % width)
                for value, place in zip(values.tolist(), places.tolist(), strict=True)
            ]
        entries.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
        return [(row, column, value) for value, row, column in entries[:count]]

    def share_on_diagonal(self) -> float:
        """Return the share of rows whose largest entry is on the diagonal."""
        blocks = [self.rows[first : first + BLOCK] @ self.columns.T for first in range(0, len(self.rows), BLOCK)]
        largest = torch.cat([block.argmax(dim=-1) for block in blocks])
        return float((largest == torch.arange(len(largest))).float().mean())

    def sum_of_eigenvalues(self) -> float:
        """Return the sum of the eigenvalues of a square table divided by the sum of their absolute values, -1 to 1.

        Those of A Bᵀ [N, N] that are not 0 are those of Bᵀ A [D, D].
        """
        eigenvalues = torch.linalg.eigvals(self.columns.double().T @ self.rows.double())
        return float(eigenvalues.sum().real / eigenvalues.abs().sum().clamp(min=1e-12))


@dataclass(frozen=True)
class Circuits:
    """The circuits of one head."""

    attends: TokenTable
    """QK: the attention score q · k / √D of each query token (rows) for each key token (columns), minus the mean over
    the keys, which the softmax removes."""
    writes: TokenTable | None
    """OV: the logit of each token (columns) when a token (rows) is attended to, without the scale of the final norm,
    minus the means over rows and over columns. None in an encoder, whose heads write no logits directly."""

    @property
    def copying(self) -> float | None:
        """Return the copying score of Elhage et al. 2021: the sum of the eigenvalues of the OV circuit divided by the
        sum of their absolute values; 1 for a head that raises the logits of what it attends to. None if the tokens of
        rows and columns differ."""
        square = self.writes is not None and len(self.writes.rows) == len(self.writes.columns)
        return self.writes.sum_of_eigenvalues() if square and self.writes is not None else None


@torch.no_grad()
def circuits(
    model: Model, kind: str, layer: int, head: int, sources: Tensor, targets: Tensor, distance: int
) -> Circuits:
    """Compute the circuits of a head of a model in eval mode.

    sources, targets: ids [N], [M] of the tokens of the two sides; a GPT and the decoder's own heads use only `targets`,
    an encoder only `sources`. distance: positions from the key back to the query, negative for later keys of an
    encoder; it matters only to rotary positions. Positions that are added to embeddings, and token shift, are left out.
    """
    if isinstance(model, GPT):
        vectors, blocks = _vectors(model.embedding, targets), model.blocks
    elif kind == "encoder":
        vectors, blocks = _vectors(model.source_embedding, sources), model.encoder
    else:
        vectors, blocks = _vectors(model.target_embedding, targets), model.decoder
    block = cast(DecoderBlock | EncoderBlock, blocks[layer])
    read = _read(model, blocks, (kind, layer), vectors)
    if kind == "cross":
        assert isinstance(model, EncoderDecoder)
        assert isinstance(block, CrossDecoderBlock)
        memory = model.encoder_norm(_read(model, model.encoder, None, _vectors(model.source_embedding, sources)))
        module: SelfAttention | CrossAttention = block.cross_attention
        query, key, value = _cross(block.cross_attention, read, memory)
    else:
        module = block.attention
        query, key, value = _self(model, block.attention, read, distance)
    group = head // (module.heads // module.kv_heads)
    keys, values = key[group].float(), value[group].float()
    attends = TokenTable(query[head].float() / module.head_width**0.5, keys - keys.mean(dim=0))
    if kind == "encoder":
        return Circuits(attends, None)
    columns = slice(head * module.head_width, (head + 1) * module.head_width)
    added = without_scale(model, module.output.weight[:, columns].float().T, (kind, layer))  # [D, C]
    rows = model.output_weight[targets].float()
    return Circuits(attends, TokenTable(values - values.mean(dim=0), (rows - rows.mean(dim=0)) @ added.T))


def _vectors(embedding: Embedding, ids: Tensor) -> Tensor:
    """Return the vectors of tokens without positions, [1, N, C]."""
    return embedding.tokens(ids)[None] * embedding.scale


def _read(model: Model, blocks: nn.ModuleList, place: tuple[str, int] | None, x: Tensor) -> Tensor:
    """Return what the branch (kind, layer) reads of the vectors x [1, N, C] of tokens on the direct path: normed, in a
    post-norm model by all norms before it. place None: what leaves the last block."""
    stack = [cast(DecoderBlock | EncoderBlock, block) for block in blocks]
    post_norm = model.config.block == "post_norm"
    for branch, norm in branch_norms(stack):
        if branch == place:
            return x if post_norm else norm(x)
        if post_norm:
            x = norm(x)
    return x


def _self(model: Model, module: SelfAttention, x: Tensor, distance: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries [H, N, D], and keys and values [Hkv, N, D], of tokens x [1, N, C] at a distance."""

    def rotation(position: int) -> Tensor | None:
        return None if model.rotary is None else model.rotary(position, 1).expand(x.shape[1], -1, -1, -1)

    query, _, value = module.queries_keys_values(x, rotation(max(distance, 0)))
    _, key, _ = module.queries_keys_values(x, rotation(max(-distance, 0)))
    return query[0], key[0], value[0]


def _cross(module: CrossAttention, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for cross-attention of target tokens x [1, M, C] to source tokens memory [1, N, C]."""
    query = module.query(x).unflatten(-1, (-1, module.head_width))  # [1, M, H, D]
    if module.query_key_norm is not None:
        query = cast(nn.Module, module.query_key_norm)(query)
    key, value = module.keys_values(memory)
    return query[0].transpose(0, 1), key[0], value[0]
