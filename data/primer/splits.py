"""Which split a sentence belongs to: a function of the sentence alone, the same in every run and on every machine.

The hash is taken over the Japanese side. Translation is a function (one English sentence, one Japanese), so sentences
that differ only in what Japanese does not say (a dog, the dog) fall into one split together, and no sentence on either
side is in two. A combination of construction, predicate and noun may be held out; whatever contains one is `novel` and
never trained on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

SPLITS = ("train", "valid", "test", "novel")
HELD_OUT = 0.03
"""Share of the combinations that are held out."""
EVALUATED = 0.03
"""Share of the remaining sentences in each of valid and test."""
SHARES = {"valid": 0.02, "test": 0.02, "novel": 0.02}
"""Share of the rows asked for; the rest is train."""


def fraction(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def held_out(combination: tuple[str, ...]) -> bool:
    """Whether the combination is never trained on."""
    return fraction("novel\t" + "\t".join(combination)) < HELD_OUT


def split(japanese: str, combinations: Iterable[tuple[str, ...]]) -> str:
    """train, valid, test or novel."""
    if any(held_out(combination) for combination in combinations):
        return "novel"
    place = fraction("split\t" + japanese)
    return "valid" if place < EVALUATED else "test" if place < 2 * EVALUATED else "train"


def parts(combinations: Iterable[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    """What a combination is made of, each of which training must have seen: the predicate in its construction, and the
    nouns."""
    return frozenset(
        part for name, predicate, *rest in combinations for part in ((name, predicate), *((noun,) for noun in rest))
    )


def quotas(count: int) -> dict[str, int]:
    """How many of `count` rows go to each split; every split gets at least one when there are four rows or more."""
    small = {name: max(1, round(count * share)) if count >= len(SPLITS) else 0 for name, share in SHARES.items()}
    return {"train": count - sum(small.values()), **small}
