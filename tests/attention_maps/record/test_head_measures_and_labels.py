"""Measures and labels of heads."""

import numpy as np
import pytest

from attention_maps.record import head_measures_and_labels as measures
from attention_maps.record.recording import Recording, Sample, tokens


def test_entropy_is_zero_when_sharp_and_log_keys_when_even() -> None:
    """Guards against another unit than nats, and NaN for 0 log 0."""
    weights = np.stack([np.eye(3, 4), np.full((3, 4), 0.25)])
    np.testing.assert_allclose(measures.entropy(weights), [0, np.log(4)], atol=1e-12)


def test_key_mass_and_diagonal_mass() -> None:
    """Guards against swapped axes, and the wrong sign of the offset: -1 is the previous token."""
    previous = np.eye(5, k=-1)
    weights = np.stack([np.eye(5), previous, np.eye(5)[[0] * 5]])
    np.testing.assert_array_equal(measures.key_mass(weights, [0]), [0.2, 0.2, 1])
    np.testing.assert_array_equal(measures.diagonal_mass(weights, range(5)), [1, 0, 0.2])
    np.testing.assert_array_equal(measures.diagonal_mass(weights, range(5), -1), [0, 1, 0.25])


def test_a_sequence_of_one_token_has_no_previous_one() -> None:
    """Guards against the mean of an empty array, which is NaN and breaks a chart."""
    np.testing.assert_array_equal(measures.diagonal_mass(np.ones((2, 1, 1)), range(1), -1), [0, 0])


def test_scalars_exclude_the_first_causal_row(lesson: Recording) -> None:
    """Guards against including the first causal row, whose weight on itself is always 1."""
    scalars = measures.scalars(measures.head_measures(lesson.samples))
    head_0, head_1 = (0.2 + 0.8 + 0.3) / 3, (1 / 2 + 1 / 3 + 1 / 4) / 3
    assert scalars["attention/decoder/0/first"] == pytest.approx((head_0 + head_1) / 2, abs=1e-3)
    assert scalars["attention/decoder/0/special"] == scalars["attention/decoder/0/first"]  # 'nah' is marked special
    assert scalars["attention/decoder/1/previous"] == pytest.approx(head_1, abs=1e-3)
    assert scalars["attention/decoder/1/diagonal"] == pytest.approx(head_1, abs=1e-3)
    assert scalars["attention/cross/1/entropy"] == pytest.approx(np.log(3), abs=1e-3)
    assert scalars["attention/encoder/0/special"] == 0
    assert "attention/cross/0/diagonal" not in scalars
    assert all(np.isfinite(value) for value in scalars.values())


def test_rollout_is_the_product_over_layers() -> None:
    """Guards the order of the layers and the residual connection: two layers, computed by hand."""
    first = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])
    second = np.array([[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]])
    # Layer 2 mixes what layer 1 has mixed: row 2 looks at row 1 by a quarter, which holds a quarter of row 0.
    expected = [[1, 0, 0], [0.25, 0.75, 0], [0.25 * 0.25, 0.25 * 0.75, 0.75]]
    np.testing.assert_allclose(measures.rollout([first, second]), expected)
    assert not np.allclose(measures.rollout([second, first]), expected)


def test_spread_of_uniform_attention_is_one() -> None:
    """Guards the scale: the first rows of a causal head have few keys, so plain entropy cannot reach log(T)."""
    causal = np.tril(np.ones((6, 6))) / np.arange(1, 7)[:, None]
    assert measures.spread(causal[None, 1:], np.arange(2, 7)) == pytest.approx([1])
    assert measures.spread(np.eye(6)[None], np.full(6, 6)) == pytest.approx([0])


def test_coverage_counts_argmax_keys() -> None:
    """Guards against labelling a head that always attends to the same word as an alignment."""
    weights = np.array([[[0.9, 0.1, 0], [0.2, 0.7, 0.1]], [[0.9, 0.1, 0], [0.8, 0.1, 0.1]]])
    np.testing.assert_array_equal(measures.coverage(weights, [0, 1]), [1, 0.5])


@pytest.mark.parametrize(
    ("head", "label"),
    [
        ({"previous": 0.6, "first": 0.2, "diagonal": 0.1, "special": 0.2, "spread": 0.3}, "previous token"),
        ({"previous": 0.1, "first": 0.6, "diagonal": 0.1, "special": 0.2, "spread": 0.3}, "first token"),
        ({"previous": 0.1, "first": 0.1, "diagonal": 0.6, "special": 0.2, "spread": 0.3}, "diagonal"),
        ({"previous": 0.1, "first": 0.1, "diagonal": 0.1, "special": 0.2, "spread": 0.9}, "broad"),
        ({"previous": 0.1, "first": 0.1, "diagonal": 0.1, "special": 0.2, "spread": 0.5}, ""),
        ({"first": 0.1, "special": 0.2, "spread": 0.3, "coverage": 0.8}, "alignment"),
        ({"first": 0.1, "special": 0.2, "spread": 0.3, "coverage": 0.8, "alignment_error": 80.0}, ""),
        (
            {"first": 0.6, "special": 0.6, "spread": 0.3, "coverage": 0.2, "alignment_error": 20.0},
            "alignment, first token",
        ),
        (
            {"previous": 0.6, "first": 0.1, "special": 0.2, "spread": 0.3, "antecedent": 60.0},
            "coreference, previous token",
        ),
        ({"induction": 0.7, "antecedent": 60.0, "duplicate": 0.6, "spread": 0.9}, "coreference, induction"),
        ({"previous": 0.6, "first": 0.1, "special": 0.2, "spread": 0.3, "antecedent": 40.0}, "previous token"),
        ({name: float("nan") for name in ("previous", "first", "diagonal", "special", "spread")}, ""),
    ],
)
def test_label_rules(head: dict[str, float], label: str) -> None:
    """Guards each rule, and a head that does two things; gold scores come first."""
    labels = measures.head_labels({"entropy": {"decoder": [[1.0]]}} | {k: {"decoder": [[v]]} for k, v in head.items()})
    assert labels == {"decoder": [[label]]}


def test_spread_of_a_causal_head_counts_visible_keys() -> None:
    """Guards the number of visible keys per row: with one too many, no causal head would be labelled uniform."""
    sample = Sample(
        reads=tokens(range(5), "abcde", frozenset()),
        predicts=tokens((), (), frozenset()),
        source=None,
        losses=(),
        predictions=(),
        weights={("decoder", 0): (np.tril(np.ones((1, 5, 5))) / np.arange(1, 6)[:, None]).astype(np.float32)},
        norms={},
    )
    assert measures.measures_of(sample, "decoder")["spread"] == pytest.approx([1], abs=1e-5)
    assert measures.head_labels(measures.head_measures([sample])) == {"decoder": [["broad"]]}
