"""Predictions of a model in a text as JSON: losses and likely next tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.example import Example
from run import Run
from tab_answers.replaced_outputs import inputs_of

TOP = 5
"""Number of next tokens listed for each of the two models."""


def logits_of(run: Run, example: Example) -> Tensor:
    """Return the logits of an example, [T, V] float32."""
    with undisturbed(run.model):
        return run.model(*inputs_of(example))[0].float()


def losses_of(logits: Tensor, expected: Sequence[int]) -> list[float | None]:
    """Return the loss of each expected next token in nats; logits [T, V], of which the first rows are read."""
    tokens = torch.tensor(list(expected), dtype=torch.long)
    losses = F.cross_entropy(logits[: len(tokens)], tokens, reduction="none")
    return [_rounded(loss) for loss in losses.tolist()]


def next_tokens(run: Run, example: Example, logits: Tensor, whole: Tensor | None) -> list[list[list[Any]]]:
    """Return, for each token read, the likely next tokens of either model and the actual one as [id, piece,
    probability, probability by the whole model], the most likely first; logits [T, V]."""
    chances, others = logits.softmax(dim=-1), None if whole is None else whole.softmax(dim=-1)
    rows = []
    for row in range(len(chances)):
        ids = {*chances[row].topk(min(TOP, chances.shape[-1])).indices.tolist(), *example.next_ids[row : row + 1]}
        if others is not None:
            ids |= set(others[row].topk(min(TOP, chances.shape[-1])).indices.tolist())
        ordered = sorted(ids, key=lambda token: (-float(chances[row, token]), token))
        pieces = run.tokenizers[-1].pieces(ordered)
        rows.append(
            [
                [*token_and_piece, _chance(chances, row, token_and_piece[0]), _chance(others, row, token_and_piece[0])]
                for token_and_piece in zip(ordered, pieces, strict=True)
            ]
        )
    return rows


def _chance(chances: Tensor | None, row: int, token: int) -> float | None:
    return None if chances is None else _rounded(float(chances[row, token]))


def _rounded(number: float) -> float | None:
    """Round a number; one that is not finite becomes None, because browsers reject NaN in JSON."""
    return round(number, 6) if math.isfinite(number) else None
