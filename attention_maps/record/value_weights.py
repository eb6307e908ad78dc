"""Attention weights multiplied by the norms of the values: how much each key contributes to the output of a head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attention_maps.record.recording import Recording


def weighted_by_values(recording: Recording) -> Recording:
    """Return a recording whose weights are multiplied by the norm of each key's value, with rows rescaled to sum to 1
    (Kobayashi et al. 2020). Raises LookupError if it has no value norms."""
    samples = []
    for sample in recording.samples:
        if sample.values.keys() != sample.weights.keys():
            raise LookupError("this recording has no value norms: it is older, or of another program")
        weights = {key: _weighted(maps, sample.values[key]) for key, maps in sample.weights.items()}
        samples.append(replace(sample, weights=weights))
    return replace(recording, samples=tuple(samples))


def _weighted(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """weights [H,Q,K], values [H,K] -> [H,Q,K] float32."""
    found = weights.astype(np.float32) * values.astype(np.float32)[:, None]
    sums = found.sum(axis=2, keepdims=True)
    return np.divide(found, sums, out=found, where=sums > 0)
