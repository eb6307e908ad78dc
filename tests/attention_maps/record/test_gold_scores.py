"""Scores of heads against gold labels, computed by hand: alignment error rates and antecedents."""

import numpy as np
import pytest

from attention_maps.record.alignment_readout import argmax, grown, mutual
from attention_maps.record.gold_scores import AlignmentTally, AntecedentTally, of_words
from attention_maps.record.head_measures_and_labels import with_means


def test_links_between_words_sum_over_keys_and_average_over_queries() -> None:
    """Guards against a wrong aggregation: weights are summed over the pieces of a key, averaged over those of a
    query."""
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    np.testing.assert_allclose(of_words(weights, [[0], [1, 2]], [[0, 1], [2]]), [[0.8, 0.2], [0.45, 0.55]])


def test_with_means_appends_means_of_heads_and_layers() -> None:
    """Guards against the wrong axis."""
    weights = np.arange(12.0).reshape(2, 2, 1, 3)
    means = with_means(weights)
    assert means.shape == (3, 3, 1, 3)
    np.testing.assert_array_equal(means[0, 2], weights[0].mean(axis=0))
    np.testing.assert_array_equal(means[2, 2], weights.mean(axis=(0, 1)))


def test_readouts_match_the_literature() -> None:
    """Guards argmax, intersection and grow-diag on a small map with known links."""
    weights = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
    np.testing.assert_array_equal(argmax(weights), [[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(mutual(weights), [[1, 0, 0], [0, 0, 0], [0, 0, 1]])
    # (1,0) and (1,1) both touch a mutual link; each fills a row or a column that had none.
    np.testing.assert_array_equal(grown(weights), [[1, 0, 0], [1, 1, 0], [0, 0, 1]])


def test_alignment_error_rate_is_that_of_och_and_ney() -> None:
    """Guards the formula with sure and possible links: A = {1-1, 2-3, 1-2}, S = {1-1, 2-2}, P = S ∪ {1-2}."""
    weights = np.array([[[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]]])  # target words 0, 1, 2 look at source words 0, 0, 1
    tally = AlignmentTally()
    tally.add(weights, [[0], [1], [2]], [[0], [1]], {(0, 0), (1, 1)}, {(0, 0), (1, 1), (0, 1)})
    # |A| = 3, |S| = 2, A and S share 0-0, A and P share 0-0 and 0-1: 1 - (1 + 2) / (3 + 2)
    assert tally.error_rates()[0, 0] == pytest.approx(100 * (1 - 3 / 5))
    assert (tally.gold, tally.pairs) == (2, 1)


def test_rows_labelled_by_the_token_read_are_shifted() -> None:
    """Guards against a SHIFT-ATT that equals the unshifted method: row i + 1 reads the token that row i predicts."""
    diagonal = np.eye(4)[None, None]  # row i looks at source word i
    tally = AlignmentTally()
    words = [[0], [1], [2]]
    tally.add(diagonal, words, [[0], [1], [2], [3]], {(0, 0), (1, 1), (2, 2)}, set())
    assert tally.error_rates("predicts")[0, 0] == 0
    assert tally.error_rates("reads")[0, 0] == 100


def test_error_rates_of_a_perfect_and_a_uniform_head_and_their_mean() -> None:
    """Guards against a wrong head axis."""
    perfect, blind = np.eye(3), np.tile([0.4, 0.3, 0.3], (3, 1))
    tally = AlignmentTally()
    words = [[0], [1], [2]]
    tally.add(np.stack([perfect, blind])[None], words, words, {(0, 0), (1, 1), (2, 2)}, set())
    np.testing.assert_allclose(tally.error_rates()[0], [0, 100 * 2 / 3, 0])


def test_the_antecedent_is_the_referent_whose_mentions_get_most_together() -> None:
    """Guards against using only the strongest mention, and counting one token twice."""
    weights = np.array([[[[0.35, 0.2, 0.25, 0.2]], [[0.6, 0.1, 0.1, 0.2]]]])  # [1,2,1,4]
    tally = AntecedentTally()
    anna, dog = [[0]], [[1], [1, 2]]
    tally.add(weights, 0, [anna, dog], antecedent=1)
    np.testing.assert_array_equal(tally.accuracies()[0], [100, 0, 0])
    tally.add(weights, 0, [anna, dog], antecedent=0)
    np.testing.assert_array_equal(tally.accuracies()[0], [50, 50, 50])
    assert tally.pronouns == 2


def test_ties_share_the_credit() -> None:
    """Guards against ties resolved in favour of the first candidate, which is correct more often than chance."""
    tally = AntecedentTally()
    tally.add(np.full((1, 1, 1, 4), 0.25), 0, [[[0]], [[1]]], antecedent=0)
    np.testing.assert_array_equal(tally.accuracies(), 50)
    tally.add(np.full((1, 1, 1, 4), np.nan), 0, [[[0]], [[1]]], antecedent=0)
    np.testing.assert_array_equal(tally.accuracies(), 25)
