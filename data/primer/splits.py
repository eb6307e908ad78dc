"""The split of a sentence: a function of the sentence alone, the same in every run and on every machine.

It is decided by a hash of the Japanese side. An English sentence has one translation, so sentences that differ only in
what Japanese leaves out (a dog, the dog) are in the same split, and no sentence of either side is in two. Some
combinations of construction, predicate and noun are held out; a sentence with one is `novel` and never trained on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

SPLITS = ("train", "valid", "test", "novel")
HELD_OUT = 0.03
"""Fraction of the combinations that are held out."""
EVALUATED = 0.03
"""Fraction of the remaining sentences in each of valid and test."""
SHARES = {"valid": 0.02, "test": 0.02, "novel": 0.02}
"""Fraction of the requested rows; the rest is train."""


def fraction(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def held_out(combination: tuple[str, ...]) -> bool:
    """Whether the combination is held out of training."""
    return fraction("novel\t" + "\t".join(combination)) < HELD_OUT


def split(japanese: str, combinations: Iterable[tuple[str, ...]]) -> str:
    """train, valid, test or novel."""
    if any(held_out(combination) for combination in combinations):
        return "novel"
    place = fraction("split\t" + japanese)
    return "valid" if place < EVALUATED else "test" if place < 2 * EVALUATED else "train"


def parts(combinations: Iterable[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """Parts of combinations, which must all occur in training: the predicate in its construction, and the nouns."""
    return frozenset(
        part for name, predicate, *rest in combinations for part in ((name, predicate), *((noun,) for noun in rest))
    )


def quotas(count: int) -> dict[str, int]:
    """Number of rows of each split, of `count` in all; every split has at least one when there are four or more."""
    small = {name: max(1, round(count * share)) if count >= len(SPLITS) else 0 for name, share in SHARES.items()}
    return {"train": count - sum(small.values()), **small}
