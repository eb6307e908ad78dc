"""Export our weights to nanoGPT's model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.gpt import nanogpt_module
from benchmarks.peers.weights import fill_gpt2, require_exportable
from model.gpt import GPT


def nanogpt(model: GPT, checkout: str | Path) -> Any:
    """Return nanoGPT's GPT with our weights, in evaluation mode. Raises Skipped without a checkout, and ValueError for
    a model that nanoGPT does not support."""
    config = model.config
    require_exportable(config, ("learned",))
    if config.hidden_width != 4 * config.width:
        raise ValueError(f"nanoGPT cannot run this model: model.feed_forward must be {4 * config.width}")
    module = nanogpt_module(checkout)
    shape = module.GPTConfig(
        block_size=config.context,
        vocab_size=model.vocab_size,
        n_layer=config.layers,
        n_head=config.heads,
        n_embd=config.width,
        dropout=0.0,
        bias=config.bias,
    )
    peer = module.GPT(shape)
    fill_gpt2(peer.transformer, model)
    return peer.eval()
