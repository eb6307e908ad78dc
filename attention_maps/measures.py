"""What a head does, as numbers cheap enough for every evaluation.

Every function takes weights [H,Q,K] and returns one number per head [H]. Rows of a causal map that can see only one
key (the first) are left out everywhere: they have no choice, and would count as perfectly sharp, first-token and
diagonal at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attention_maps.recording import KINDS, Recording


def entropy(weights: np.ndarray) -> np.ndarray:
    """Mean entropy of the rows in nats: 0 looks at one key, log(K) at all alike; exp(entropy) keys are in view."""
    weights = weights.astype(np.float64)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return -(weights * logs).sum(axis=2).mean(axis=1)


def key_mass(weights: np.ndarray, keys: Sequence[int]) -> np.ndarray:
    """Mean share of attention that goes to these keys: [0] the first token (the usual sink), or all special tokens."""
    return weights.astype(np.float64)[:, :, list(keys)].sum(axis=2).mean(axis=1)


def diagonal_mass(weights: np.ndarray, queries: Sequence[int], offset: int = 0) -> np.ndarray:
    """Mean share of attention that goes `offset` tokens to the right of the query: 0 itself, -1 the token before it.

    `queries` are the tokens' positions that the rows of `weights` stand for; rows whose key would lie outside are
    left out.
    """
    rows = [(row, query + offset) for row, query in enumerate(queries) if 0 <= query + offset < weights.shape[2]]
    if not rows:
        return np.zeros(len(weights))
    chosen, keys = zip(*rows, strict=True)
    return weights.astype(np.float64)[:, list(chosen), list(keys)].mean(axis=1)


def scalars(recording: Recording) -> dict[str, float]:
    """Per kind and layer, the mean over heads and samples of each measure, for charts.

    Named `attention/<kind>/<layer>/<measure>` with `entropy`, `first` (mass on the first key) and `special` (on bos,
    eos and the like); where queries and keys are the same tokens also `diagonal` (the token itself) and `previous`.
    """
    collected: dict[str, list[float]] = {}
    for number, sample in enumerate(recording.samples):
        for kind in KINDS:
            for layer in range(sample.layers(kind)):
                special = [position for position, mark in enumerate(sample.keys(kind).special) if mark]
                weights = recording.maps(number, kind, layer)
                start = 1 if kind == "decoder" else 0
                queries = range(start, weights.shape[1])
                if not queries:
                    continue
                rows = weights[:, start:]
                measured = {"entropy": entropy(rows), "first": key_mass(rows, [0]), "special": key_mass(rows, special)}
                if kind != "cross":
                    measured["diagonal"] = diagonal_mass(rows, queries)
                    measured["previous"] = diagonal_mass(rows, queries, -1)
                for name, heads in measured.items():
                    collected.setdefault(f"attention/{kind}/{layer}/{name}", []).append(float(heads.mean()))
    return {name: float(np.mean(values)) for name, values in collected.items()}
