"""Inputs of the benchmarks: files named by the user, sizes of models, random tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from configs.errors import UserError
from configs.program import expanded


def existing(key: str, value: str, kind: Literal["file", "folder"] = "file", hint: str = "") -> Path:
    """Return the absolute path of an existing file or folder. Raises UserError, ending in `hint`, if there is none."""
    path = expanded(value).absolute()
    if not value or not (path.is_file() if kind == "file" else path.is_dir()):
        raise UserError(f"{key}={value}: no such {kind}{hint}")
    return path


def absolute(value: str) -> str:
    """Return the absolute path of a setting; an empty setting stays empty."""
    return value and str(expanded(value).absolute())


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


def zipf_ids(vocabulary: int, count: int = 1 << 21) -> NDArray[np.uint16]:
    """Draw `count` token ids below `vocabulary` (at most 65,536) from a Zipf distribution with a fixed seed -> [count].

    Token k is k + 1 times rarer than token 0, so that steps update embedding rows about as often as with a text.
    """
    summed = np.cumsum(1 / np.arange(1, vocabulary + 1))
    drawn = np.random.default_rng(1).random(count) * summed[-1]
    return np.searchsorted(summed, drawn).astype(np.uint16)
