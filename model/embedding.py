"""Embed token ids as vectors with positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.config import ModelConfig
from model.layers import Dropout, make_norm
from model.positions import LearnedPositions, RotaryPositions, SinusoidalPositions, Start


class Embedding(nn.Module):
    """Token embeddings, of which word dropout zeroes whole vectors, plus additive positions and a norm, if the
    configuration uses them; dropout on the result.

    Sinusoidal positions have entries of magnitude 1, so token vectors are scaled by √C (Vaswani et al. 2017, section
    3.4): tied to the output projection they are small, and the positions would dominate them.
    """

    def __init__(self, config: ModelConfig, rows: int, tokens: nn.Embedding | None = None) -> None:
        """rows: (padded) vocabulary size. tokens: an existing embedding table to share instead of a new one."""
        super().__init__()
        self.tokens = nn.Embedding(rows, config.width) if tokens is None else tokens
        self.positions: LearnedPositions | SinusoidalPositions | None = None
        self.scale = 1.0
        if config.position == "learned":
            self.positions = LearnedPositions(config.context, config.width)
        elif config.position == "sinusoidal":
            self.positions = SinusoidalPositions(config.context, config.width)
            self.scale = config.width**0.5
        if config.embedding_scale is not None:
            self.scale = config.embedding_scale
        self.norm = make_norm(config) if config.embedding_norm else None
        self.word_dropout = Dropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, start: Start = 0, length: int | None = None) -> Tensor:
        """Embed tokens [B, T] int64 that begin at position `start`; returns [B, T, C].

        length: number of distinct positions, T or 1 (all hypotheses of a beam are at the same position).
        """
        x = self.tokens(tokens)  # [B, T, C]
        if self.scale != 1.0:
            x = x * self.scale
        if self.training and self.word_dropout.p > 0:
            x = x * self.word_dropout(torch.ones_like(x[..., :1]))  # one draw for each token
        if self.positions is not None:
            x = x + self.positions(start, tokens.shape[1] if length is None else length).to(x.dtype)
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)


def make_rotary(config: ModelConfig) -> RotaryPositions | None:
    """Return the rotation shared by all layers of a stack; None if positions are added to the embedding."""
    if config.position != "rotary":
        return None
    return RotaryPositions(config.context, config.head_width, config.rotary_width, config.rotary_base)
