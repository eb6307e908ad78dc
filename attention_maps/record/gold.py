"""How well heads do what is known to be right: word alignments and antecedents of pronouns.

Everything is counted for all heads at once. Shapes: L layers, H heads, Q queries, K keys; a group is a list of the
token positions of one word or mention. Results are [L+1,H+1]: index H of a layer is the mean of its heads, and [L,H]
the mean of all heads of all layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Group = Sequence[int]
WordLinks = set[tuple[int, int]]


def with_means(weights: np.ndarray) -> np.ndarray:
    """[L,H,Q,K] to [L+1,H+1,Q,K]: the means over heads beside the heads, the means over layers below the layers."""
    beside = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
    return np.concatenate([beside, beside.mean(axis=0, keepdims=True)], axis=0)


def of_words(weights: np.ndarray, queries: Sequence[Group], keys: Sequence[Group]) -> np.ndarray:
    """Weights between tokens [...,Q,K] as weights between words: mean over a query's tokens, sum over a key's."""
    rows = np.stack([weights[..., list(group), :].mean(axis=-2) for group in queries], axis=-2)
    return np.stack([rows[..., list(group)].sum(axis=-1) for group in keys], axis=-1)


def mutual(weights: np.ndarray) -> np.ndarray:
    """bool like `weights` [...,Q,K]: the pairs in which each is the one most looked at by, or looking at, the other."""
    return _best(weights, -1) & _best(weights, -2)


def argmax(weights: np.ndarray) -> np.ndarray:
    """bool like `weights` [...,Q,K]: every query with the key it looks at most."""
    return _best(weights, -1)


def grown(weights: np.ndarray) -> np.ndarray:
    """bool like `weights` [...,Q,K]: the mutual pairs, and those of either side that touch them (grow-diag, Koehn et
    al. 2003)."""
    linked, either = mutual(weights), _best(weights, -1) | _best(weights, -2)
    flat_links, flat_either = linked.reshape(-1, *linked.shape[-2:]), either.reshape(-1, *linked.shape[-2:])
    for links, candidates in zip(flat_links, flat_either, strict=True):
        _grow(links, candidates)
    return linked


def _grow(links: np.ndarray, candidates: np.ndarray) -> None:
    """Add in place, while there are any, candidates that touch a link and whose row or column has none yet."""
    while True:
        padded = np.pad(links, 1)
        beside = sum(
            padded[1 + a : padded.shape[0] - 1 + a, 1 + b : padded.shape[1] - 1 + b]
            for a in (-1, 0, 1)
            for b in (-1, 0, 1)
        )
        fitting = np.argwhere(candidates & ~links & (beside > 0))
        added = False
        for row, column in fitting:
            if not links[row].any() or not links[:, column].any():
                links[row, column] = added = True
        if not added:
            return


def _best(weights: np.ndarray, axis: int) -> np.ndarray:
    best = np.zeros(weights.shape, dtype=bool)
    np.put_along_axis(best, weights.argmax(axis=axis, keepdims=True), True, axis)
    return best


READOUTS = {"argmax": argmax, "mutual": mutual, "grown": grown}
"""How links between words are read out of a map."""


@dataclass
class AlignmentTally:
    """Links of every head counted over sentence pairs. AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|) with sure links S,
    possible ones P that contain them, and the head's own A (Och & Ney 2003)."""

    sure: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """Per (rows, read-out), how many sure links every head found, [L+1,H+1]."""
    possible: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    found: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    gold: int = 0
    pairs: int = 0

    def add(
        self,
        weights: np.ndarray,
        targets: Sequence[Group],
        sources: Sequence[Group],
        sure: WordLinks,
        possible: WordLinks,
    ) -> None:
        """Count one pair. `weights` [L,H,Q,K] of cross-attention, row i predicting token i of the target; groups in
        tokens; links are (source word, target word)."""
        gold = _matrix(sure, len(targets), len(sources))
        allowed = gold | _matrix(possible, len(targets), len(sources))
        last = weights.shape[2] - 1
        shifted = [[min(position + 1, last) for position in group] for group in targets]
        for rows, groups in (("predicts", targets), ("reads", shifted)):
            words = of_words(with_means(weights), groups, sources)
            for name, read in READOUTS.items():
                links = read(words[:, -1:] if name == "grown" else words)  # growing is slow: of the means alone
                for counter, counted in (
                    (self.sure, links & gold),
                    (self.possible, links & allowed),
                    (self.found, links),
                ):
                    counter[rows, name] = counter.get((rows, name), 0) + counted.sum(axis=(-2, -1))
        self.gold += len(sure)
        self.pairs += 1

    def error_rates(self, rows: str = "predicts", readout: str = "argmax") -> np.ndarray:
        """AER of every head in percent, [L+1,H+1]; `grown` of the means over heads alone, [L+1,1]."""
        key = rows, readout
        return 100 * (1 - (self.sure[key] + self.possible[key]) / (self.found[key] + self.gold))


def _matrix(links: WordLinks, targets: int, sources: int) -> np.ndarray:
    matrix = np.zeros((targets, sources), dtype=bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix


@dataclass
class AntecedentTally:
    """How often every head finds whom or what a pronoun means."""

    right: np.ndarray | float = 0.0
    """[L+1,H+1] pronouns found."""
    pronouns: int = 0

    def add(self, weights: np.ndarray, query: int, candidates: Sequence[Sequence[Group]], antecedent: int) -> None:
        """Count one pronoun. `weights` [L,H,Q,K]; `candidates`: for each referent that it could mean the tokens of its
        mentions; the head takes the referent whose mentions it looks at most, all together."""
        row = with_means(weights)[:, :, query]  # [L,H+1,K]
        mass = np.stack(
            [row[..., sorted({token for group in groups for token in group})].sum(axis=-1) for groups in candidates], -1
        )
        first = mass == mass.max(axis=-1, keepdims=True)  # several where referents tie: the credit is shared
        self.right = self.right + first[..., antecedent] / np.maximum(first.sum(axis=-1), 1)
        self.pronouns += 1

    def accuracies(self) -> np.ndarray:
        """Percent of the pronouns that every head gets right, [L+1,H+1]."""
        return 100 * np.asarray(self.right) / self.pronouns
