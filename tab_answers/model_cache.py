"""Cache of the last used models."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from interpretability.ablation import Head
from run import Run
from training.checkpoints.loading import checkpoint_path
from training.checkpoints.summary import WEIGHTS

CACHED = 2
"""Number of models in memory: one, and one to compare it with."""


Labels = dict[str, list[list[str]]]
"""Labels of heads, `labels[kind][layer][head]`, as in a recording."""


@dataclass
class CachedModel:
    """A loaded run with values computed by its model."""

    run: Run
    means: dict[Head, Tensor] = field(default_factory=dict)
    """Mean output of each head, [D]; empty until the first question that needs it."""
    labels: Labels | None = None
    """Labels of the heads at the recorded step nearest to that of the weights; None until they are read."""


class Models:
    """Loads runs, and caches the `CACHED` last used ones until their weights change."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[Path, Path, int], CachedModel] = OrderedDict()  # least recently used first

    def get(self, run: Path, checkpoint: str) -> CachedModel:
        """Return the model of a checkpoint. Raises UserError if it cannot be loaded."""
        path = checkpoint_path(run, checkpoint)
        weights = path / WEIGHTS
        key = run, path, weights.stat().st_mtime_ns if weights.exists() else 0
        if key not in self._cached:
            while len(self._cached) >= CACHED:  # first, so that there are never more
                self._cached.popitem(last=False)
            self._cached[key] = CachedModel(Run(run, checkpoint))
        self._cached.move_to_end(key)
        return self._cached[key]

    def forget(self) -> None:
        """Drop all models, to free their memory."""
        self._cached.clear()
