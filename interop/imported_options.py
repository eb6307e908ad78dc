"""Options of models that come from elsewhere, which most exporters do not carry. This module does not import torch."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import fields

from model.config import IMPORTED_MODELS_ONLY, ModelConfig

ACTIVATIONS = ("relu2", "gelu", "swiglu")


def foreign_options(config: ModelConfig, program: str, carried: Container[str] = ()) -> dict[str, str]:
    """Return one sentence for each option that the exporter does not carry, naming it, with what to train instead.

    carried: names of options that this exporter carries, unlike the others.
    """
    default = {field.name: field.default for field in fields(ModelConfig)}
    refused = {
        f"model.{key}={getattr(config, key)}: is not carried to {program}": f"model.{key}={default[key]}"
        for key in IMPORTED_MODELS_ONLY
        if key not in carried and getattr(config, key) != default[key]
    }
    if "activation" not in carried and config.activation not in ACTIVATIONS:
        sentence = f"model.activation={config.activation}: is not carried to {program}"
        refused[sentence] = f"one of {', '.join(ACTIVATIONS)}"
    return refused


def advised(refused: Mapping[str, str]) -> list[str]:
    """Return the sentences of refused options, each with what to train instead."""
    return [f"{sentence}; train with {instead}" for sentence, instead in refused.items()]
