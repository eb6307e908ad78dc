"""From tokens to vectors and back: embeddings, output projection, positions (added or as rotations), token shift."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.cache import KVCache
from model.config import ModelConfig
from model.fast_kernels import accelerated_by, fast_rotate
from model.layers import Dropout

Start = int | Tensor
"""Position of the first token; [B] int64 if rows are at different positions (cached decoding of unequal prompts)."""


class Embedding(nn.Module):
    """Token embeddings plus additive positions, if the configuration uses them; dropout on the result.

    Sinusoidal positions have entries of magnitude 1, so token vectors are scaled by √C (Vaswani et al. 2017, section
    3.4): tied to the output projection they are small, and the positions would dominate them.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, tokens: nn.Embedding | None = None) -> None:
        """tokens: an existing embedding table to share instead of a new one."""
        super().__init__()
        self.tokens = nn.Embedding(config.padded_vocab(vocab_size), config.width) if tokens is None else tokens
        self.positions: LearnedPositions | SinusoidalPositions | None = None
        self.scale = 1.0
        if config.position == "learned":
            self.positions = LearnedPositions(config.context, config.width)
        elif config.position == "sinusoidal":
            self.positions = SinusoidalPositions(config.context, config.width)
            self.scale = config.width**0.5
        if config.embedding_scale is not None:
            self.scale = config.embedding_scale
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, start: Start = 0, length: int | None = None) -> Tensor:
        """Embed tokens [B, T] int64 that begin at position `start`; returns [B, T, C].

        length: number of distinct positions, T or 1 (all hypotheses of a beam are at the same position).
        """
        x = self.tokens(tokens)  # [B, T, C]
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(start, tokens.shape[1] if length is None else length).to(x.dtype)
        return self.dropout(x)


class LanguageModel(nn.Module):
    """Base class of both models: how vectors become logits of the vocabulary, the way back from `Embedding`."""

    config: ModelConfig
    vocab_size: int
    head: nn.Linear

    def add_output_projection(self, embedding: Embedding) -> None:
        """Create the output projection: the token vectors of `embedding` themselves, or other weights."""
        rows = self.config.padded_vocab(self.vocab_size)
        self.head = nn.Linear(self.config.width, rows, bias=self.config.output_bias)
        if self.config.tie_embeddings:
            self.head.weight = embedding.tokens.weight

    def logits(self, features: Tensor) -> Tensor:
        """Project features [..., C] to logits [..., V], without the padding rows of the vocabulary."""
        return self.head(features)[..., : self.vocab_size]

    @property
    def output_weight(self) -> Tensor:
        """Return the output projection [V, C] without the padding rows of the vocabulary."""
        return self.head.weight[: self.vocab_size]

    @property
    def output_bias(self) -> Tensor | None:
        """Return the bias [V] of the output projection, without the padding rows; None if it has none."""
        return None if self.head.bias is None else self.head.bias[: self.vocab_size]


# --- Positions


class LearnedPositions(nn.Module):
    """One trained vector for each of `context` positions."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.empty(context, width))

    def forward(self, start: Start, length: int) -> Tensor:
        """Return vectors [T, C] for an int start (ValueError beyond the context), [B, T, C] for a tensor."""
        if isinstance(start, Tensor):
            return self.weight[_positions(start, length)]
        if start + length > self.context:
            raise ValueError(
                f"{start + length} tokens are longer than model.context={self.context}; model.position=learned has no "
                "vectors for the rest: shorten the text, or train with a longer context or with rotary positions"
            )
        return self.weight[start : start + length]


class _PositionTable(nn.Module):
    """A table computed from positions, stored for the first `context` positions and computed on demand beyond them.

    The table stays float32 when the module is converted to another dtype: bfloat16 would round it. It is not in the
    state dict, since it follows from the configuration.
    """

    table: Tensor

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.context = context
        self.register_buffer("table", self.compute(context), persistent=False)

    def compute(self, length: int) -> Tensor:
        """Compute the first `length` rows, float32 on the CPU."""
        raise NotImplementedError

    def forward(self, start: Start, length: int) -> Tensor:
        """Return rows [T, ...] for an int start, also beyond the context; [B, T, ...] within it for a tensor."""
        if isinstance(start, Tensor):
            return self.table[_positions(start, length)]  # [B, T, ...]
        table = self.table
        if start + length > self.context:
            table = self.compute(start + length).to(table.device)
        return table[start : start + length]  # [T, ...]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> _PositionTable:  # every `to` calls it
        super()._apply(fn, recurse)
        self.table = self.compute(self.context).to(self.table.device)
        return self


class SinusoidalPositions(_PositionTable):
    """PE(p, 2i) = sin(p / 10000^(2i/C)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017, section 3.5)."""

    def compute(self, length: int) -> Tensor:
        """Compute sines and cosines, interleaved: [T, C] float32."""
        angles = _angles(length, self.width)  # [T, C/2]
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # [T, C]


class RotaryPositions(_PositionTable):
    """Rotate each pair (i, i + D/2) of a head's query and key by p / base^(2i/D) (Su et al. 2021, equation 34, where
    base = 10000).

    Attention scores then depend only on the distance between query and key. The choice of pairs is a convention: half a
    head apart, each half is contiguous in memory. The forward pass returns the rotation, which all layers share;
    `rotate` applies it.
    """

    def __init__(self, context: int, width: int, base: float = 10_000.0) -> None:
        """width: D."""
        self.base = base  # before the constructor of the base class, which calls `compute`
        super().__init__(context, width)

    def compute(self, length: int) -> Tensor:
        """Compute cosines and sines, [T, 2, D/2]."""
        angles = _angles(length, self.width, self.base)  # [T, D/2]
        return torch.stack((angles.cos(), angles.sin()), dim=1)

    def forward(self, start: Start, length: int) -> Tensor:
        """Return the rotation [T, 2, 1, D/2] (or [B, T, 2, 1, D/2]) float32: cosines and sines, shared by all heads."""
        return super().forward(start, length).unsqueeze(-2)


@accelerated_by(fast_rotate)
def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate x [B, T, H, D] by a rotation from `RotaryPositions`; computed in the dtype of x."""
    cos, sin = rotation.to(x.dtype).unbind(-3)  # [T, 1, D/2] or [B, T, 1, D/2]
    first, second = x.chunk(2, dim=-1)  # [B, T, H, D/2]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def make_rotary(config: ModelConfig) -> RotaryPositions | None:
    """Return the rotation shared by all layers of a stack; None if positions are added to the embedding."""
    if config.position != "rotary":
        return None
    return RotaryPositions(config.context, config.head_width, config.rotary_base)


def _positions(start: Tensor, length: int) -> Tensor:
    return start.unsqueeze(1) + torch.arange(length, device=start.device)  # [B, T]


def _angles(length: int, width: int, base: float = 10_000.0) -> Tensor:
    """Return the angle of each position and frequency, [T, width/2] float32. Computed in float64, because float32 loses
    the phase of distant positions; on the CPU, as not every device has it."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device="cpu"), frequencies).float()


# --- Token shift


class TokenShift(nn.Module):
    """y[t] = x[t] + g * x[t-1] with a trained gain g for each channel (Peng et al. 2023, RWKV, section 3.1).

    Keys and queries of the first layer then describe pairs of tokens. A head that copies needs two layers without it:
    one to find out which token precedes each token, one to compare (Olsson et al. 2022).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor, starts: Tensor | None = None, cache: KVCache | None = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; nothing precedes the first token.

        starts [B, T] bool: tokens that, like the first, have no predecessor. cache: holds the tokens before these.
        """
        before = F.pad(x[:, :-1], (0, 0, 1, 0)) if cache is None else cache.append_inputs(x)
        if starts is not None:
            before = before.masked_fill(starts.unsqueeze(-1), 0.0)
        return x + self.gain * before
