"""Numbers that say what a head does."""

import numpy as np
import pytest

from attention_maps import measures
from attention_maps.recording import Recording


def test_entropy_is_zero_when_sharp_and_log_keys_when_even() -> None:
    """Guards the unit (nats) and 0 log 0 = 0."""
    weights = np.stack([np.eye(3, 4), np.full((3, 4), 0.25)])
    np.testing.assert_allclose(measures.entropy(weights), [0, np.log(4)], atol=1e-12)


def test_mass_goes_where_it_was_put() -> None:
    """Guards the axes and the sign of the offset: -1 is the token before."""
    previous = np.eye(5, k=-1)
    weights = np.stack([np.eye(5), previous, np.eye(5)[[0] * 5]])
    np.testing.assert_array_equal(measures.key_mass(weights, [0]), [0.2, 0.2, 1])
    np.testing.assert_array_equal(measures.diagonal_mass(weights, range(5)), [1, 0, 0.2])
    np.testing.assert_array_equal(measures.diagonal_mass(weights, range(5), -1), [0, 1, 0.25])


def test_a_sequence_of_one_token_has_no_previous_one() -> None:
    """Guards against the mean of nothing, which is NaN and breaks a chart."""
    np.testing.assert_array_equal(measures.diagonal_mass(np.ones((2, 1, 1)), range(1), -1), [0, 0])


def test_scalars_leave_out_rows_that_have_no_choice(lesson: Recording) -> None:
    """Guards against the first causal row, always 1 on itself, passing for a sharp, diagonal, first-token head."""
    scalars = measures.scalars(lesson)
    head_0, head_1 = (0.2 + 0.8 + 0.3) / 3, (1 / 2 + 1 / 3 + 1 / 4) / 3
    assert scalars["attention/decoder/0/first"] == pytest.approx((head_0 + head_1) / 2, abs=1e-3)
    assert scalars["attention/decoder/0/special"] == scalars["attention/decoder/0/first"]  # 'nah' is marked special
    assert scalars["attention/decoder/1/previous"] == pytest.approx(head_1, abs=1e-3)
    assert scalars["attention/decoder/1/diagonal"] == pytest.approx(head_1, abs=1e-3)
    assert scalars["attention/cross/1/entropy"] == pytest.approx(np.log(3), abs=1e-3)
    assert scalars["attention/encoder/0/special"] == 0
    assert "attention/cross/0/diagonal" not in scalars
    assert all(np.isfinite(value) for value in scalars.values())
