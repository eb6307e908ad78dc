"""Export our weights to nanoGPT's model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.gpt import nanogpt_model
from benchmarks.peers.weights import fill_gpt2, require_exportable
from model.gpt import GPT


def nanogpt(model: GPT, checkout: str | Path) -> Any:
    """Return nanoGPT's GPT with our weights, in evaluation mode. Raises Skipped without a checkout, or ValueError."""
    config = model.config
    require_exportable(config, ("learned",))
    if config.hidden_width != 4 * config.width:
        raise ValueError(f"nanoGPT cannot run this model: model.feed_forward must be {4 * config.width}")
    peer = nanogpt_model(checkout, config, model.vocab_size, dropout=0.0, bias=config.bias)
    fill_gpt2(peer.transformer, model)
    return peer.eval()
