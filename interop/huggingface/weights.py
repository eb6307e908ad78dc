"""Name our weights as the modules of transformers do, and load them into such a module."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from model.attention import CrossAttention, SelfAttention

Weights = dict[str, Tensor]


def layer(name: str, module: nn.Module) -> Weights:
    """Return weight and bias (if there is one) of a norm or linear layer, under the name of their layer."""
    found = {f"{name}.{part}": getattr(module, part, None) for part in ("weight", "bias")}
    return {key: value for key, value in found.items() if value is not None}


def norm_eps(norm: nn.Module) -> float:
    """Return the constant in the denominator of a norm; all norms of a model have the same."""
    eps = norm.eps
    assert isinstance(eps, float)
    return eps


def rows(names: Iterable[str], sizes: Iterable[int], fused: nn.Linear) -> Weights:
    """Split a fused linear layer by its outputs into the layers `names` with `sizes` outputs."""
    found: Weights = {}
    for part, value in layer("", fused).items():
        pieces = value.split(tuple(sizes))
        found |= {f"{name}{part}": piece for name, piece in zip(names, pieces, strict=True)}
    return found


def self_attention(name: str, module: SelfAttention) -> Weights:
    """Return queries, keys and values of self-attention as three layers `q_proj`, `k_proj`, `v_proj`."""
    keys = module.kv_heads * module.head_width
    names = [f"{name}.{part}_proj" for part in "qkv"]
    return rows(names, (module.heads * module.head_width, keys, keys), module.query_key_value)


def cross_attention(name: str, module: CrossAttention) -> Weights:
    """Return queries, keys and values of cross-attention as three layers `q_proj`, `k_proj`, `v_proj`."""
    keys = module.kv_heads * module.head_width
    names = [f"{name}.{part}_proj" for part in "kv"]
    return layer(f"{name}.q_proj", module.query) | rows(names, (keys, keys), module.key_value)


@torch.no_grad()
def load(theirs: nn.Module, weights: Weights) -> None:
    """Copy weights by name into a module; a bias that only the module has becomes 0. Raises RuntimeError naming the
    weights that do not fit."""
    zeros = {
        name: torch.zeros_like(value)
        for name, value in theirs.state_dict().items()
        if name.endswith(".bias") and name not in weights
    }
    theirs.load_state_dict(weights | zeros)
