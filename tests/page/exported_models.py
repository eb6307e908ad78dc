"""Random models in Python and, with the same weights, in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from interpretability.ablation import Head
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from page.weights import FORMATS, describe_weights
from tests.interop.conftest import CHOICES, flavours, sharpened
from tests.page.conftest import Browser

VOCABULARY, SOURCE_VOCABULARY = 101, 90
BOS, EOS = 2, 3

SMALL = ModelConfig(layers=2, heads=4, width=32, context=24, vocab_multiple=64)
EVERY = 37
"""Of `flavours`, the suite computes each EVERY-th: eight, in which each value of each option occurs."""

VARIANTS = (
    replace(SMALL, activation="relu", token_shift=True, mask_documents=True, kv_heads=1),
    replace(SMALL, activation="gelu_tanh", norm="layer", norm_eps=0.1, cross_qk_norm=True, encoder_layers=1),
    replace(SMALL, heads=2, width=22, context=24, position="learned", feed_forward=39, share_embeddings=False),
    replace(SMALL, rotary_base=50.0, activation="swiglu", tie_embeddings=False, cross_qk_norm=True, kv_heads=2),
    replace(
        SMALL, block="post_norm", norm="layer", bias=True, output_bias=True, position="sinusoidal", activation="silu"
    ),
    replace(SMALL, block="post_norm", embedding_scale=3.0, token_shift=True, qk_norm=False),
)
"""Options that are not in `flavours`, each at least once."""


def suite() -> list[ModelConfig]:
    """Return the configurations of the suite."""
    chosen = list(flavours())[::EVERY]
    assert all({getattr(config, key) for config in chosen} == set(values) for key, values in CHOICES.items())
    return [*chosen, *VARIANTS]


def gpt(config: ModelConfig, seed: int = 0) -> GPT:
    """Return a random GPT whose texts end now and then."""
    model = GPT(config, VOCABULARY, EOS)
    sharpened(model, seed)
    with torch.no_grad():
        model.head.weight[EOS] *= 3
    return model


def translator(config: ModelConfig, seed: int = 0) -> EncoderDecoder:
    """Return a random translator; its vocabulary is shared if the configuration shares embeddings."""
    sizes = (VOCABULARY if config.share_embeddings else SOURCE_VOCABULARY), VOCABULARY
    model = EncoderDecoder(config, *sizes, shared=config.share_embeddings)
    sharpened(model, seed)
    with torch.no_grad():
        model.head.weight[EOS] *= 3
    return model


def export(browser: Browser, name: str, model: GPT | EncoderDecoder, dtype: str = "f16") -> GPT | EncoderDecoder:
    """Write a model for `load(name)` of `LOAD` in the browser; return the model that it must equal there, whose weights
    are rounded."""
    description, weights = describe_weights(model, dtype)
    (browser.files / f"{name}.json").write_text(json.dumps(description))
    (browser.files / f"{name}.bin").write_bytes(weights)
    rounded = deepcopy(model)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.to(FORMATS[dtype]).float())
    return rounded.eval()


LOAD = """
const {loadModel} = await import('/engine/model/load.js');
const read = async (name) => (await fetch(`/files/${name}`, {cache: 'no-store'})).arrayBuffer();
const load = async (name) => {
  const description = JSON.parse(new TextDecoder().decode(await read(`${name}.json`)));
  return loadModel(description, await read(`${name}.bin`));
};
const numbersOf = (output) => (output.length ? Float32Array.from(output) : output);
const outputsOf = (pairs) => new Map(pairs.map(([head, output]) => [head, numbersOf(output)]));
"""
"""JavaScript for the body of `Browser.run`: `load(name)` returns a model, `outputsOf` the argument `replace` of pairs
[kind|layer|head, number or list]."""


def plain(outputs: Mapping[Head, Any]) -> list[list[Any]]:
    """Return the replaced outputs of heads as `outputsOf` reads them."""
    return [
        ["|".join(map(str, head)), output.flatten().tolist() if isinstance(output, Tensor) else output]
        for head, output in outputs.items()
    ]
