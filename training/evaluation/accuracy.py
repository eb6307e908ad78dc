"""How often a language model and simple rules find the right referent in the built-in stories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.evaluation.coreference import HEURISTICS, Pronoun, share


@dataclass(frozen=True)
class Accuracy:
    """Percentages of right referents."""

    count: int
    left_out: int
    """Those of stories longer than the model's context, excluded from all figures."""
    model: float
    guesses: dict[str, float]
    """Accuracies of baselines that ignore the meaning."""
    chance: float
    """Accuracy of a random candidate."""


def accuracy(scored: Sequence[Pronoun], right: int, left_out: int) -> Accuracy:
    """Compare the model, which is right `right` times of the `scored` ones (at least one), with the baselines."""
    percent = 100 / len(scored)
    guesses = {name: percent * sum(share(one, rank) for one in scored) for name, rank in HEURISTICS.items()}
    chance = percent * sum(1 / len(one.candidates) for one in scored)
    return Accuracy(len(scored), left_out, percent * right, guesses, chance)
