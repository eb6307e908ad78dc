"""Score every head against gold labels: alignment error rate (AER) and antecedents of pronouns.

Shapes: L layers, H heads, Q queries, K keys. Scores are [L+1,H+1]: index H of a layer is the mean of its heads, and
[L,H] the mean of all heads of all layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attention_maps.record.alignment_readout import READOUTS
from attention_maps.record.head_measures_and_labels import with_means

Groups = Sequence[Sequence[int]]
"""Token positions of each word, or of each mention of a referent."""

WordLinks = set[tuple[int, int]]
"""Pairs (source word, target word)."""


def of_words(weights: np.ndarray, queries: Groups, keys: Groups) -> np.ndarray:
    """Convert weights [...,Q,K] from tokens to words: mean over the tokens of a query word, sum over the tokens of a
    key word."""
    rows = np.stack([weights[..., list(group), :].mean(axis=-2) for group in queries], axis=-2)
    return np.stack([rows[..., list(group)].sum(axis=-1) for group in keys], axis=-1)


@dataclass
class AlignmentTally:
    """Link counts of every head over sentence pairs. AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|) with sure links S,
    possible links P ⊇ S, and the links A of the head (Och & Ney 2003)."""

    also_grown: Sequence[tuple[int, int]] = ()
    """Single heads (layer, head) whose links are also grown; otherwise only those of the means, because it is slow."""
    counts: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """|A∩S|, |A∩P| and |A| of every head, [3,L+1,H+1], by row labels and extraction method."""
    gold: int = 0
    """|S|."""
    pairs: int = 0
    """Number of sentence pairs."""

    def add(self, weights: np.ndarray, targets: Groups, sources: Groups, sure: WordLinks, possible: WordLinks) -> None:
        """Count one sentence pair. `weights`: cross-attention [L,H,Q,K], where row i predicts target token i;
        `targets`, `sources`: token positions of each word; links are (source word, target word)."""
        gold = _matrix(sure, len(targets), len(sources))
        allowed = gold | _matrix(possible, len(targets), len(sources))
        last = weights.shape[2] - 1
        shifted = [[min(position + 1, last) for position in group] for group in targets]
        for rows, groups in (("predicts", targets), ("reads", shifted)):
            words = of_words(with_means(weights), groups, sources)
            for name, read in READOUTS.items():
                links = np.zeros(words.shape, dtype=bool)
                read_heads = self._grown(words) if name == "grown" else np.ones(words.shape[:2], dtype=bool)
                links[read_heads] = read(words[read_heads])
                counted = np.stack([links & gold, links & allowed, links]).sum(axis=(-2, -1))
                self.counts[rows, name] = self.counts.get((rows, name), 0) + counted
        self.gold += len(sure)
        self.pairs += 1

    def _grown(self, words: np.ndarray) -> np.ndarray:
        chosen = np.zeros(words.shape[:2], dtype=bool)
        chosen[:, -1] = True
        for place in self.also_grown:
            chosen[place] = True
        return chosen

    def error_rates(self, rows: str = "predicts", readout: str = "argmax") -> np.ndarray:
        """Return the AER of every head in percent, [L+1,H+1]; for `grown`, 100 for heads whose links are not grown."""
        sure, possible, extracted = self.counts[rows, readout]
        return 100 * (1 - (sure + possible) / (extracted + self.gold))


def _matrix(links: WordLinks, targets: int, sources: int) -> np.ndarray:
    matrix = np.zeros((targets, sources), dtype=bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix


@dataclass
class AntecedentTally:
    """Number of pronouns that each head resolves to the gold antecedent."""

    right: np.ndarray | float = 0.0
    """Correctly resolved pronouns [L+1,H+1], with means as in `with_means`."""
    pronouns: int = 0

    def add(self, weights: np.ndarray, query: int, candidates: Sequence[Groups], antecedent: int) -> None:
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
