"""A random permutation that needs no memory: the image of each number is computed.

A Feistel network (Luby & Rackoff 1988) permutes all integers of a given bit width. For any other size, results outside
the range are permuted again until they are inside ("cycle walking", Black & Rogaway 2002, Ciphers with Arbitrary Finite
Domains), less than twice on average. numpy's permutation needs 8 bytes per item (docs/log.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 8


def permuted(numbers: NDArray[np.int64], size: int, seed: tuple[int, ...]) -> NDArray[np.int64]:
    """Map `numbers`, 1-d, by the permutation of [0, size) that `seed` defines."""
    bits = max(2, (size - 1).bit_length())
    keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64).astype(np.uint64)
    found = numbers.astype(np.uint64)
    outside = np.arange(len(found))
    while len(outside):
        found[outside] = _network(found[outside], bits, keys)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _network(numbers: NDArray[np.uint64], bits: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Permute the integers of `bits` bits: each half in turn is XORed with a hash of the other half."""
    width = np.uint64(bits // 2)
    low_mask, high_mask = np.uint64((1 << bits // 2) - 1), np.uint64((1 << bits - bits // 2) - 1)
    low, high = numbers & low_mask, numbers >> width
    for low_key, high_key in keys.reshape(-1, 2):
        low = low ^ (_hashed(high, low_key) & low_mask)
        high = high ^ (_hashed(low, high_key) & high_mask)
    return high << width | low


def _hashed(numbers: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Hash with the finaliser of SplitMix64 (Steele, Lea & Flood 2014) and a key."""
    mixed = numbers ^ key
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31)
