"""Our weights in nanoGPT, which is no package: `model.py` is read from a checkout of github.com/karpathy/nanoGPT."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.weights import fill_gpt2, require_exportable
from model.gpt import GPT


def nanogpt(model: GPT, checkout: Path) -> Any:
    """The same function of the tokens, in evaluation mode. Raises ImportError where `checkout` is none."""
    config = model.config
    require_exportable(config, ("learned",))
    if config.hidden_width != 4 * config.width:
        raise ValueError(f"nanoGPT cannot run this model: model.feed_forward must be {4 * config.width}")
    source = _read(checkout / "model.py")
    shape = source.GPTConfig(
        block_size=config.context,
        vocab_size=model.vocab_size,
        n_layer=config.layers,
        n_head=config.heads,
        n_embd=config.width,
        dropout=0.0,
        bias=config.bias,
    )
    peer = source.GPT(shape)
    fill_gpt2(peer.transformer, model)
    return peer.eval()


def _read(path: Path) -> Any:
    """The module in a file, under a name that is not that of our package `model`."""
    if not path.is_file():
        raise ImportError(f"{path}: no such file; nanogpt=… names a checkout of github.com/karpathy/nanoGPT")
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
