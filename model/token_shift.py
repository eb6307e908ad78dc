"""Token shift (Peng et al. 2023, RWKV, section 3.1): mix each token's vector with that of the token before it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.cache import KVCache

INITIAL_GAIN = 0.5


class TokenShift(nn.Module):
    """y[t] = x[t] + g * x[t-1] with a trained gain g for each channel.

    Keys and queries of the first layer then describe pairs of tokens. A head that copies needs two layers without it:
    one to find out which token precedes each token, one to compare (Olsson et al. 2022).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), INITIAL_GAIN))

    def forward(self, x: Tensor, starts: Tensor | None = None, cache: KVCache | None = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]; nothing precedes the first token.

        starts [B, T] bool: further tokens before which nothing is read. cache: holds the tokens before these.
        """
        before = F.pad(x[:, :-1], (0, 0, 1, 0)) if cache is None else cache.append_inputs(x)
        if starts is not None:
            before = before.masked_fill(starts.unsqueeze(-1), 0.0)
        return x + self.gain * before
