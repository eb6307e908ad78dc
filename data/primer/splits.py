"""Assign each sentence to a split, which depends on the sentence only, not on the run or the machine.

The split is a hash of the Japanese side. An English sentence has one translation, so sentences that differ only in
words without a Japanese counterpart (a dog, the dog) are in the same split, and no sentence of either language is in
two splits. Some combinations of construction, predicate and noun are held out: sentences that contain one are in
`novel`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

SPLITS = ("train", "valid", "test", "novel")
HELD_OUT = 0.03
"""Fraction of the combinations that are held out."""
EVALUATED = 0.03
"""Fraction of the remaining sentences in each of `valid` and `test`."""
SHARES = {"valid": 0.02, "test": 0.02, "novel": 0.02}
"""Fraction of the requested rows in each split; the rest is `train`."""


def fraction(text: str) -> float:
    """Hash a text to a number in [0, 1)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def held_out(combination: tuple[str, ...]) -> bool:
    """Whether a combination is held out of training."""
    return fraction("novel\t" + "\t".join(combination)) < HELD_OUT


def split(japanese: str, combinations: Iterable[tuple[str, ...]]) -> str:
    """Return the split: `train`, `valid`, `test` or `novel`."""
    if any(held_out(combination) for combination in combinations):
        return "novel"
    place = fraction("split\t" + japanese)
    return "valid" if place < EVALUATED else "test" if place < 2 * EVALUATED else "train"


def parts(combinations: Iterable[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """Return the parts that must all occur in training: the predicate in its construction, and the nouns."""
    return frozenset(
        part for name, predicate, *rest in combinations for part in ((name, predicate), *((noun,) for noun in rest))
    )


def quotas(count: int) -> dict[str, int]:
    """Return the number of rows per split for `count` rows; each split has at least one if `count` is four or more."""
    small = {name: max(1, round(count * share)) if count >= len(SPLITS) else 0 for name, share in SHARES.items()}
    return {"train": count - sum(small.values()), **small}
