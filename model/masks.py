"""Compute which queries attend to which keys."""

from __future__ import annotations

import torch
from torch import Tensor

Mask = Tensor | None
"""Which keys may be attended to: bool, [B, S] or for each query [B, T, S]; None if all may."""


def visible_keys(query: Tensor, key: Tensor, causal: bool, key_mask: Mask) -> Tensor | None:
    """Return which query sees which key: bool, broadcastable to [B, H, T, S]; None if every query sees every key."""
    queries, keys = query.shape[2], key.shape[2]
    if causal and queries > keys:
        raise ValueError(f"{queries} causal queries cannot be the last positions of {keys} keys")
    if key_mask is not None and key_mask.dim() == 3:  # replaces the causal rule, which it contains
        return key_mask.unsqueeze(1)  # [B, 1, T, S]
    visible = None if key_mask is None else key_mask[:, None, None, :]  # [B, 1, 1, S]
    if causal and queries > 1:  # a single query is the last position and sees all
        past = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)  # [T, S]
        visible = past if visible is None else visible & past
    return visible


def document_mask(starts: Tensor) -> Tensor:
    """Return which tokens of a window see each other: bool [B, T, T], causal within each document.

    starts [B, T] bool: the tokens that begin a document, each an eos (GPT-2's end of text, which separates documents).
    A window may hold parts of several documents. Positions stay those of the window.
    """
    document = starts.cumsum(dim=1, dtype=torch.int32)  # [B, T], grows by one with each document
    return (document.unsqueeze(2) == document.unsqueeze(1)).tril()
