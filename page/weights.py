"""Weights and architecture of a model, for the engine of an exported page (`engine/model/`)."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor

from configs.errors import UserError
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.size import count_parameters

FORMATS = {"bf16": torch.bfloat16, "f16": torch.float16}
"""The number formats of exported weights, two bytes each."""

CHOICES = {
    "block": ("pre_norm", "post_norm"),
    "norm": ("rms", "layer"),
    "position": ("rotary", "learned", "sinusoidal"),
    "activation": ("relu2", "relu", "gelu", "gelu_tanh", "silu", "swiglu"),
}
"""What the engine computes, of each option of `ModelConfig` that names a formula."""

COMPUTED = frozenset(CHOICES) | {
    *("layers", "encoder_layers", "heads", "kv_heads", "width", "feed_forward", "context", "mask_documents"),
    *("token_shift", "qk_norm", "cross_qk_norm", "bias", "tie_embeddings", "share_embeddings", "vocab_multiple"),
    *("norm_eps", "rotary_base", "embedding_scale", "output_bias"),
    *("dropout", "attention_dropout"),  # of training alone
}
"""All options of `ModelConfig` that the engine knows."""


def describe_weights(model: GPT | EncoderDecoder, dtype: str) -> tuple[dict[str, Any], bytes]:
    """Return the description of a model, for JSON, and its weights: what `loadModel` of the engine reads.

    dtype: a key of `FORMATS`, to which all weights are rounded. Description: `task` (gpt or translate); `config`, the
    values of `ModelConfig` with numbers instead of null (and `qk_norm_eps`, the constant of the norms of queries and
    keys); `vocab_size` of what is written, `source_vocab_size` (translate), `eos_id` (null unless the model masks
    documents), `parameters` as `count_parameters` counts them, `dtype`, and `tensors`: shape and offset in bytes of
    each tensor by its name in the model. Tied tensors have one offset. Rows that only pad a vocabulary are left out.

    Raises UserError, naming the option, for an architecture that the engine does not compute, and for weights that the
    format cannot hold.
    """
    if refused := refused_options(model.config):
        raise UserError(*refused)
    tensors: dict[str, dict[str, Any]] = {}
    offsets: dict[int, int] = {}
    parts: list[bytes] = []
    size = 0
    for name, weight in model.named_parameters(remove_duplicate=False):
        rows = _rows(model, name, weight)
        if id(weight) not in offsets:
            offsets[id(weight)] = size
            parts.append(_rounded(name, weight.detach()[:rows], dtype))
            size += len(parts[-1])
        tensors[name] = {"shape": [rows, *weight.shape[1:]], "offset": offsets[id(weight)]}
    translates = isinstance(model, EncoderDecoder)
    description = {
        "task": "translate" if translates else "gpt",
        "config": _resolved(model.config),
        "vocab_size": model.vocab_size,
        "source_vocab_size": model.source_vocab if isinstance(model, EncoderDecoder) else None,
        "eos_id": model.eos_id if isinstance(model, GPT) and model.config.mask_documents else None,
        "parameters": count_parameters(model),
        "dtype": dtype,
        "tensors": tensors,
    }
    return description, b"".join(parts)


def refused_options(config: ModelConfig) -> list[str]:
    """Return one sentence for each option that the engine does not compute, naming it, with what to train instead."""
    refused = [
        f"model.{key}={getattr(config, key)}: the engine of a page does not compute it; train with one of "
        f"{', '.join(choices)}"
        for key, choices in CHOICES.items()
        if getattr(config, key) not in choices
    ]
    # An option that is added later keeps the old computation by its default.
    refused += [
        f"model.{field.name}={getattr(config, field.name)}: the engine of a page does not know this option; train with "
        f"model.{field.name}={field.default}"
        for field in fields(config)
        if field.name not in COMPUTED and getattr(config, field.name) != field.default
    ]
    return refused


def _resolved(config: ModelConfig) -> dict[str, Any]:
    """Return the values of a configuration, with the numbers that null stands for."""
    scale = config.width**0.5 if config.position == "sinusoidal" else 1.0
    eps = {"rms": 1e-6, "layer": 1e-5}[config.norm]
    return asdict(config) | {
        "kv_heads": config.key_value_heads,
        "encoder_layers": config.encoder_depth,
        "feed_forward": config.hidden_width,
        "embedding_scale": scale if config.embedding_scale is None else config.embedding_scale,
        "norm_eps": eps if config.norm_eps is None else config.norm_eps,
        "qk_norm_eps": 1e-6 if config.norm_eps is None else config.norm_eps,
    }


def _rows(model: GPT | EncoderDecoder, name: str, weight: Tensor) -> int:
    """Return the number of rows of a parameter without those that pad a vocabulary."""
    if isinstance(model, EncoderDecoder) and name.startswith("source_embedding.tokens."):
        return model.source_vocab
    padded = name.startswith(("embedding.tokens.", "target_embedding.tokens.", "head."))
    return model.vocab_size if padded else len(weight)


def _rounded(name: str, weight: Tensor, dtype: str) -> bytes:
    """Return the bytes of a parameter, little-endian. Raises UserError if the format cannot hold it."""
    rounded = weight.to("cpu", FORMATS[dtype]).contiguous()
    if not rounded.isfinite().all():
        largest = float(weight.abs().max())
        advice = "; bf16 can" if dtype == "f16" and weight.isfinite().all() else ""
        raise UserError(f"{name} has a weight of magnitude {largest:g}, which {dtype} cannot hold{advice}")
    return rounded.view(torch.int16).numpy().tobytes()
