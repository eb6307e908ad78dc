"""The size of a Transformer, as contenders take it and as the command line of `train.py` writes it."""

from __future__ import annotations

from collections.abc import Mapping


class Shape:
    """Base of dataclasses that have these four fields."""

    layers: int
    heads: int
    width: int
    context: int

    @property
    def size(self) -> dict[str, int]:
        """The four by name."""
        return {"layers": self.layers, "heads": self.heads, "width": self.width, "context": self.context}


def model_settings(values: Mapping[str, object]) -> list[str]:
    """Overrides of the group `model` for `train.py`: `model.layers=4` and so on."""
    return [f"model.{name}={value}" for name, value in values.items()]
