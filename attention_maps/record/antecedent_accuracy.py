"""Accuracy of every head at finding the antecedent of a pronoun. Shapes: L layers, H heads, Q queries, K keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attention_maps.record.measures import with_means

Group = Sequence[int]
"""Token positions of one mention."""


@dataclass
class AntecedentTally:
    """How many pronouns each head resolves to their antecedent."""

    right: np.ndarray | float = 0.0
    """[L+1,H+1] pronouns found."""
    pronouns: int = 0

    def add(self, weights: np.ndarray, query: int, candidates: Sequence[Sequence[Group]], antecedent: int) -> None:
        """Count one pronoun. `weights` [L,H,Q,K]; `candidates`: for each possible referent the tokens of its
        mentions; the head's answer is the referent whose mentions get the most attention in total."""
        row = with_means(weights)[:, :, query]  # [L,H+1,K]
        mass = np.stack(
            [row[..., sorted({token for group in groups for token in group})].sum(axis=-1) for groups in candidates], -1
        )
        first = mass == mass.max(axis=-1, keepdims=True)  # several where referents tie: the credit is shared
        self.right = self.right + first[..., antecedent] / np.maximum(first.sum(axis=-1), 1)
        self.pronouns += 1

    def accuracies(self) -> np.ndarray:
        """Percent of the pronouns that each head resolves, [L+1,H+1]."""
        return 100 * np.asarray(self.right) / self.pronouns
