"""Choose the architecture of llama.cpp that computes a GPT. This module does not import torch."""

from __future__ import annotations

from configs.errors import UserError
from interop.imported_options import advised, foreign_options
from model.config import ModelConfig

INTERLEAVED = ("llama", "arcee")
"""Architectures that rotate neighbouring entries of a head; the others rotate entries half a head apart, as we do."""


def architecture(config: ModelConfig) -> str:
    """Return the `general.architecture` that computes this GPT. Raises UserError naming each option that none computes,
    and what to train instead."""
    rotary, layer_norm, qk_norm = config.position == "rotary", config.norm == "layer", config.qk_norm
    activation, bias = config.activation, config.bias
    refused = advised(foreign_options(config, "llama.cpp"))
    refused += [
        sentence
        for holds, sentence in (
            (
                config.token_shift,
                "model.token_shift=true: llama.cpp does not add the vector of the token before; train with "
                "model.token_shift=false",
            ),
            (
                rotary and layer_norm,
                "model.norm=layer with model.position=rotary: llama.cpp has no exact GELU for it; train with "
                "model.norm=rms, or with model.position=learned",
            ),
            (
                rotary and not layer_norm and activation == "gelu",
                "model.activation=gelu with model.position=rotary: no architecture of llama.cpp has both; train with "
                "relu2 or swiglu",
            ),
            (
                rotary and not layer_norm and bias and (qk_norm or activation == "relu2"),
                "model.bias=true: llama.cpp has it only with model.activation=swiglu and model.qk_norm=false; train "
                "with model.bias=false",
            ),
            (
                not rotary and (not layer_norm or qk_norm or activation != "gelu"),
                f"model.position={config.position}: llama.cpp adds positions to the embedding only in GPT-2, with "
                "model.norm=layer, model.qk_norm=false and model.activation=gelu; train with these, or with "
                "model.position=rotary",
            ),
        )
        if holds
    ]
    if refused:
        raise UserError(*refused)
    if not rotary:
        return "gpt2"
    if activation == "relu2":
        return "apertus" if qk_norm else "arcee"
    return "qwen3" if qk_norm else "llama"
