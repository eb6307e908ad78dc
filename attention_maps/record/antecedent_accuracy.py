"""Measure how often each head selects the antecedent of a pronoun. Shapes: L layers, H heads, Q queries, K keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attention_maps.record.measures import with_means

Group = Sequence[int]
"""Token positions of one mention."""


@dataclass
class AntecedentTally:
    """Number of pronouns that each head resolves to the gold antecedent."""

    right: np.ndarray | float = 0.0
    """Correctly resolved pronouns [L+1,H+1], with means as in `with_means`."""
    pronouns: int = 0

    def add(self, weights: np.ndarray, query: int, candidates: Sequence[Sequence[Group]], antecedent: int) -> None:
        """Count one pronoun. `weights` [L,H,Q,K]; `candidates`: token positions of the mentions of each possible
        referent. A head selects the referent whose mentions get the most attention in total."""
        row = with_means(weights[:, :, [query]])[:, :, 0]  # [L+1,H+1,K]
        mass = np.stack(
            [row[..., sorted({token for group in groups for token in group})].sum(axis=-1) for groups in candidates], -1
        )
        first = mass == mass.max(axis=-1, keepdims=True)  # tied referents share the credit
        self.right = self.right + first[..., antecedent] / np.maximum(first.sum(axis=-1), 1)
        self.pronouns += 1

    def accuracies(self) -> np.ndarray:
        """Return the percentage of pronouns that each head resolves, [L+1,H+1]."""
        return 100 * np.asarray(self.right) / self.pronouns
