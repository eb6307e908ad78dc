"""Describe a Hugging Face architecture: how its config and weights map to ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interop.pretrained.config_values import Values
from interop.pretrained.weight_mapping import Piece
from model.config import ModelConfig


@dataclass(frozen=True)
class Shapes:
    """Our model, and what its shapes depend on besides."""

    config: ModelConfig
    source_vocab: int
    """Rows of the embedding table; of a translator, of the source's."""
    target_vocab: int

    @property
    def norm_eps(self) -> float:
        """Return the constant in the norms."""
        default = 1e-6 if self.config.norm == "rms" else 1e-5
        return default if self.config.norm_eps is None else self.config.norm_eps


@dataclass(frozen=True)
class Architecture:
    """An architecture that our blocks compute exactly."""

    model_type: str
    """Its name in `config.json`."""

    class_name: str
    """The class of transformers with a language model head."""

    task: str
    """`gpt` or `translate`."""

    read: Callable[[Values], ModelConfig]
    """Returns our config; problems are left in the values."""

    write: Callable[[Shapes], dict[str, Any]]
    """Returns the `config.json` of a config that `read` can return, without special ids."""

    pieces: Callable[[Shapes], list[Piece]]
    """Returns all parameters."""

    prefix: str = ""
    """Of all names but those of the head; absent in folders of the model without a head."""

    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names of a tensor that is stored once under any of them."""

    ignored: str = r"^$"
    """Regular expression of tensors that are no parameters."""
