"""Options of models that come from elsewhere, which the exporters do not carry. This module does not import torch."""

from __future__ import annotations

from dataclasses import fields

from model.config import ModelConfig

FOREIGN = (
    "block",
    "norm_eps",
    "norm_gain",
    "rotary_base",
    "rotary_fraction",
    "embedding_norm",
    "embedding_scale",
    "output_bias",
    "logit_cap",
)
"""Options of `init_from`: models of other programs need them."""

ACTIVATIONS = ("relu2", "gelu", "swiglu")


def foreign_options(config: ModelConfig, program: str) -> list[str]:
    """Return one sentence for each option that no exporter carries, naming it and what to train instead."""
    default = {field.name: field.default for field in fields(ModelConfig)}
    found = [
        f"model.{key}={getattr(config, key)}: is not carried to {program}; train with model.{key}={default[key]}"
        for key in FOREIGN
        if getattr(config, key) != default[key]
    ]
    if config.activation not in ACTIVATIONS:
        others = ", ".join(ACTIVATIONS)
        found.append(f"model.activation={config.activation}: is not carried to {program}; train with one of {others}")
    return found
