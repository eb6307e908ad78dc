"""Size of a Transformer, as arguments of contenders and as `train.py` settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Size of a Transformer; `context` is the maximum sequence length in tokens."""

    layers: int
    heads: int
    width: int
    context: int

    @property
    def size(self) -> dict[str, int]:
        """The four fields by name, also for subclasses with more fields."""
        return {"layers": self.layers, "heads": self.heads, "width": self.width, "context": self.context}


def model_settings(values: Mapping[str, object]) -> list[str]:
    """Return overrides of the group `model` for `train.py`, e.g. `model.layers=4`."""
    return [f"model.{name}={value}" for name, value in values.items()]
