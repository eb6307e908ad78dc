"""`model.attention` reproduces the figures in the texts of lessons 2 and 3 (docs/lessons)."""

from __future__ import annotations

import torch

from model.attention import attention, reference_attention


def test_averages_become_attention() -> None:
    """Check the weights and outputs printed in the text "from averages to attention" (lesson 2)."""
    torch.manual_seed(42)
    tokens = torch.randn(3, 5)
    to_key, to_query, to_value = torch.randn(5, 4), torch.randn(5, 4), torch.randn(5, 4)
    query, key, value = (tokens @ to[None, None] for to in (to_query, to_key, to_value))  # [1, 1, T, D]
    expected_weights = torch.tensor([[1.0, 0.0, 0.0], [0.9546, 0.0454, 0.0], [0.2563, 0.7156, 0.0281]])
    expected_output = torch.tensor(
        [[-0.9285, 0.3301, 1.8359, -1.3448], [-0.8652, 0.3082, 1.7268, -1.2445], [0.1138, 0.0517, 0.0270, 0.1831]]
    )
    output, weights = reference_attention(query, key, value, causal=True)
    torch.testing.assert_close(weights[0, 0], expected_weights, rtol=0, atol=5.1e-5)
    torch.testing.assert_close(output[0, 0], expected_output, rtol=0, atol=5.1e-5)
    torch.testing.assert_close(attention(query, key, value, causal=True)[0, 0], expected_output, rtol=0, atol=5.1e-5)


def test_scaling_keeps_the_scores_at_variance_one() -> None:
    """Check that the variance of Q Kᵀ is the width, that 1/√D compensates for it, and that the first row of a causal
    output is v[0] (lesson 3)."""
    query, key, value = torch.randn(3, 1, 1, 512, 8).unbind()
    scores = query @ key.transpose(-1, -2)
    assert abs(scores.var() / 8 - 1) < 0.1
    output, weights = reference_attention(query, key, value, causal=True)
    recovered = weights[0, 0, -1].log() - weights[0, 0, -1, 0].log()  # softmax ignores a constant: compare differences
    torch.testing.assert_close(recovered, (scores[0, 0, -1] - scores[0, 0, -1, 0]) / 8**0.5, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 512))
    assert torch.equal(output[0, 0, 0], value[0, 0, 0])
