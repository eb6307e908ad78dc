"""Attention function that a model of transformers calls while it is recorded.

It is registered with transformers' `AttentionInterface`. It calls the function that the model used before, so that the
model computes what it always does, and passes queries, keys and values on to the recording.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attention_maps.base.errors import UserError

PREFIX = "attention_maps|"
"""Of the names of our functions, one for each function that computes the outputs: `eager` and `sdpa`."""


class See(Protocol):
    """Records a layer of a forward pass."""

    def __call__(
        self, module: nn.Module, states: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, output: Tensor, **how: Any
    ) -> Tensor | None:
        """Return the weights [B,H,Q,K] of a layer if it is recorded. states: queries, keys, values; output: what the
        layer's own function returned, [B,Q,H,D]; how: all other arguments of that function."""


_recorders: WeakKeyDictionary[nn.Module, See] = WeakKeyDictionary()
"""What records each module at the moment."""


@contextmanager
def switched(model: PreTrainedModel, see: See) -> Iterator[None]:
    """Let all attention layers of a model call `see` inside the block; at its end, restore the model's own attention.

    Raises UserError for a model that is already being recorded or does not use transformers' AttentionInterface.
    """
    modules = list(model.modules())
    if any(module in _recorders for module in modules):
        raise UserError("the model is already being recorded: only one recording at a time")
    if not getattr(model, "_can_set_attn_implementation", lambda: True)():
        raise refusal(model)
    every = [module.config for module in modules if hasattr(getattr(module, "config", None), "_attn_implementation")]
    configs = list({id(config): config for config in every}.values())  # of the model, then of models inside it
    before = [config._attn_implementation for config in configs]
    try:
        for module in modules:
            _recorders[module] = see
        for config, implementation in zip(configs, before, strict=True):
            config._attn_implementation = _registered("eager" if implementation in ("eager", None) else "sdpa")
        yield
    finally:
        # Setting the attention of a config also sets that of the configs inside it, which follow.
        for config, implementation in zip(configs, before, strict=True):
            config._attn_implementation = implementation
        for module in modules:
            _recorders.pop(module, None)


def refusal(model: nn.Module) -> UserError:
    """Return the error for a model whose attention cannot be seen."""
    name = type(model).__name__
    return UserError(f"{name} computes its attention itself, not through transformers' AttentionInterface: no maps")


def _registered(function: str) -> str:
    """Return the name of our attention function that takes outputs from `eager` or `sdpa`, after registering it."""
    name = PREFIX + function
    AttentionInterface.register(name, partial(_attend, function))
    AttentionMaskInterface.register(name, AttentionMaskInterface()[function])
    return name


def _attend(
    function: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return a layer's outputs [B,Q,H,D] as without recording, and its weights if they are known."""
    attend = AttentionInterface()["sdpa"] if function == "sdpa" else _eager(module)
    output, weights = attend(module, query, key, value, attention_mask, **kwargs)
    if see := _recorders.get(module):
        with torch.no_grad(), torch.autocast(query.device.type, enabled=False):  # which would round the weights
            states = query.detach(), key.detach(), value.detach()
            seen = see(module, states, attention_mask, output.detach(), **kwargs)
        weights = seen if weights is None else weights
    return output, weights


def _eager(module: nn.Module) -> Callable[..., Any]:
    """Return the eager attention function of a layer, which transformers defines beside its class."""
    for parent in type(module).__mro__:
        if function := getattr(sys.modules.get(parent.__module__), "eager_attention_forward", None):
            return function
    raise UserError(
        f"{type(module).__name__} has no eager attention function: load the model with attn_implementation='sdpa'"
    )
