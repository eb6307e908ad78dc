"""Name our weights as the modules of transformers do, and load them into such a module."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from model.attention import Attention

Weights = dict[str, Tensor]

ACTIVATIONS = {"relu2": "relu2", "gelu": "gelu", "swiglu": "silu"}
"""Our activations in `ACT2FN` of transformers."""


def layer(name: str, module: nn.Module) -> Weights:
    """Return weight and bias (if there is one) of a norm or linear layer, under the name of their layer."""
    weights = {f"{name}.{part}": getattr(module, part, None) for part in ("weight", "bias")}
    return {key: value for key, value in weights.items() if value is not None}


def split(names: Iterable[str], sizes: Iterable[int], fused: Weights) -> Weights:
    """Split a layer by its outputs into the layers `names` with `sizes` outputs. fused: from `layer`."""
    weights: Weights = {}
    for fused_name, value in fused.items():
        part = fused_name.rpartition(".")[2]
        pieces = value.split(tuple(sizes))
        weights |= {f"{name}.{part}": piece for name, piece in zip(names, pieces, strict=True)}
    return weights


def each_head_its_key(attention: Attention, fused: Weights) -> Weights:
    """Repeat grouped keys and values for each of the heads that share them, for a model without groups.

    fused: the layer of queries, keys and values, or of keys and values, with (H +) 2 Hkv heads; returns (H +) 2 H.
    """
    grouped, weights = 2 * attention.kv_heads, Weights()
    for name, value in fused.items():
        heads = value.unflatten(0, (-1, attention.head_width))  # [(H +) 2 Hkv, D, C], or [(H +) 2 Hkv, D]
        repeated = heads[-grouped:].repeat_interleave(attention.heads // attention.kv_heads, dim=0)
        weights[name] = torch.cat((heads[:-grouped], repeated)).flatten(0, 1)
    return weights


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
