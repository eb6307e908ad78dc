"""The computed random order."""

from __future__ import annotations

import numpy as np
import pytest

from data.batches.permutation import permuted


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 17, 1000, 4097])
def test_every_number_comes_exactly_once(size: int) -> None:
    """Guards: windows that are skipped or repeated, at sizes that are no power of two above all."""
    order = permuted(np.arange(size), size, (3, 1))
    assert sorted(order.tolist()) == list(range(size))


def test_a_part_of_the_order_is_that_part_of_the_whole() -> None:
    """Guards resume: a place's number may not depend on what is computed with it."""
    whole = permuted(np.arange(1000), 1000, (5, 0))
    assert np.array_equal(permuted(np.arange(300, 400), 1000, (5, 0)), whole[300:400])


def test_every_item_comes_at_every_place_alike() -> None:
    """Guards the shuffle: an order that favours places would show the model the same neighbours in every epoch."""
    size, epochs = 10, 5000
    counts = np.zeros((size, size))
    for epoch in range(epochs):
        counts[np.arange(size), permuted(np.arange(size), size, (0, epoch))] += 1
    expected = epochs / size
    assert ((counts - expected) ** 2 / expected).sum() < 140  # chi-squared, 81 degrees of freedom: p = 0.00005


def test_neighbours_do_not_stay_neighbours() -> None:
    """Guards: windows of one page in one batch."""
    size = 1_000_003
    order = permuted(np.arange(20_000), size, (1, 1))
    steps = np.abs(np.diff(order))
    assert abs(steps.mean() / (size / 3) - 1) < 0.02  # the mean distance of two random places is a third
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.03


def test_sizes_beyond_memory_are_computed() -> None:
    """Guards texts of a terabyte: 10^12 windows, of which a few are asked for."""
    order = permuted(np.arange(10**12 - 5, 10**12), 10**12, (0, 0))
    assert len(set(order.tolist())) == 5
    assert order.min() >= 0
    assert order.max() < 10**12
