"""Convert the size of a Transformer to arguments of contenders and to `train.py` settings."""

from __future__ import annotations

from collections.abc import Mapping


class Shape:
    """Base class of dataclasses with these four fields."""

    layers: int
    heads: int
    width: int
    context: int

    @property
    def size(self) -> dict[str, int]:
        """The four fields by name."""
        return {"layers": self.layers, "heads": self.heads, "width": self.width, "context": self.context}


def model_settings(values: Mapping[str, object]) -> list[str]:
    """Return overrides of the group `model` for `train.py`, e.g. `model.layers=4`."""
    return [f"model.{name}={value}" for name, value in values.items()]
