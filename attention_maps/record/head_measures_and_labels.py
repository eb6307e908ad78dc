"""Compute measures of each head, cheap enough for every evaluation, and derive labels from the measures.

The functions on weights [H,Q,K] return one number per head [H]. `measures_of` skips the first row of a causal map: its
only key gets all the attention, so the row would count as zero-entropy, first-token and diagonal at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attention_maps.record.recording import KINDS, Kind, Measures, Sample


def entropy(weights: np.ndarray) -> np.ndarray:
    """Return the mean entropy of the rows in nats: 0 if one key gets all the attention, log(K) if attention is uniform;
    exp(entropy) is the effective number of keys."""
    weights = weights.astype(np.float64, copy=False)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return -(weights * logs).sum(axis=2).mean(axis=1)


def key_mass(weights: np.ndarray, keys: Sequence[int]) -> np.ndarray:
    """Return the mean attention (0 to 1) to these keys: [0] for the first token (the usual sink), or all special
    tokens."""
    return weights.astype(np.float64, copy=False)[:, :, list(keys)].sum(axis=2).mean(axis=1)


def diagonal_mass(weights: np.ndarray, queries: Sequence[int], offset: int = 0) -> np.ndarray:
    """Return the mean attention (0 to 1) to the key at `offset` from the query: 0 is the token itself, -1 the previous
    token. `queries`: token positions of the rows of `weights`; rows whose key is out of range are skipped."""
    rows = [(row, query + offset) for row, query in enumerate(queries) if 0 <= query + offset < weights.shape[2]]
    if not rows:
        return np.zeros(len(weights))
    chosen, keys = zip(*rows, strict=True)
    return weights.astype(np.float64, copy=False)[:, list(chosen), list(keys)].mean(axis=1)


def spread(weights: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Return the entropy relative to uniform attention, from 0 to 1; `visible`: number of keys of each row [Q]."""
    return entropy(weights) / max(float(np.log(visible).mean()), 1e-9)


def coverage(weights: np.ndarray, keys: Sequence[int]) -> np.ndarray:
    """Return the fraction of these keys that are the argmax of at least one row."""
    best = weights.argmax(axis=2)  # [H,Q]
    return np.array([len(set(row.tolist()) & set(keys)) for row in best]) / max(len(keys), 1)


def rollout(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Return the attention rollout [Q,K] (Abnar & Zuidema 2020): the product over layers of (A + I) / 2, where A is the
    head-averaged attention in `layers` [Q,K], first layer first, and I accounts for the residual connection. It is a
    heuristic that ignores values and MLPs."""
    mixed = np.eye(len(layers[0]))
    for weights in layers:
        mixed = (weights.astype(np.float64) + np.eye(len(weights))) / 2 @ mixed
    return mixed


def with_means(weights: np.ndarray) -> np.ndarray:
    """Append the mean over heads, then the mean over layers: [L,H,Q,K] to [L+1,H+1,Q,K]."""
    beside = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
    return np.concatenate([beside, beside.mean(axis=0, keepdims=True)], axis=0)


def measures_of(sample: Sample, kind: Kind) -> dict[str, np.ndarray]:
    """Compute all measures of the heads of all layers on one sample, each [L*H], layer by layer; empty if there are no
    maps of this kind, or no row has more than one key."""
    layers = [sample.weights[kind, layer] for layer in range(sample.layers(kind))]
    start = 1 if kind == "decoder" else 0
    queries = range(start, layers[0].shape[1]) if layers else range(0)
    if not queries:
        return {}
    weights = np.concatenate(layers).astype(np.float64)  # all at once: a call costs more than the numbers of a layer
    rows = weights[:, start:]
    marks = sample.keys(kind).special
    special = [position for position, mark in enumerate(marks) if mark]
    visible = np.array(queries) + 1 if kind == "decoder" else np.full(len(queries), weights.shape[2])
    measured = {
        "entropy": entropy(rows),
        "spread": spread(rows, visible),
        "first": key_mass(rows, [0]),
        "special": key_mass(rows, special),
    }
    if kind == "cross":
        measured["coverage"] = coverage(rows, [position for position, mark in enumerate(marks) if not mark])
    else:
        measured["diagonal"] = diagonal_mass(rows, queries)
        measured["previous"] = diagonal_mass(rows, queries, -1)
    return measured


def head_measures(samples: Sequence[Sample]) -> Measures:
    """Compute the mean over samples of every measure, `[measure][kind][layer][head]`.

    Measures: `entropy` in nats, `spread` (0 to 1), mean attention (0 to 1) to the `first` key and to `special` tokens;
    for self-attention also mean attention to the token itself (`diagonal`) and to the `previous` token; for
    cross-attention also `coverage`, the fraction of source tokens that are the argmax of at least one row.
    """
    collected: dict[str, dict[str, list[np.ndarray]]] = {}
    counts: dict[str, list[int]] = {}  # heads of each layer
    for kind in KINDS:
        for sample in samples:
            measured = measures_of(sample, kind)
            if measured:
                counts[kind] = [len(sample.weights[kind, layer]) for layer in range(sample.layers(kind))]
            for name, heads in measured.items():
                collected.setdefault(name, {}).setdefault(kind, []).append(heads)
    return {
        name: {
            kind: [
                [round(head, 5) for head in layer.tolist()]
                for layer in np.split(np.mean(heads, axis=0), np.cumsum(counts[kind])[:-1])
            ]
            for kind, heads in kinds.items()
        }
        for name, kinds in collected.items()
    }


def head_labels(measures: Measures) -> dict[str, list[list[str]]]:
    """Return the label of every head, `[kind][layer][head]`: the names of the first two matching rules, "coreference,
    diagonal", since a head may do two things; "" if no rule matches."""
    labels: dict[str, list[list[str]]] = {}
    for kind, layers in measures.get("entropy", {}).items():
        known = {name: kinds[kind] for name, kinds in measures.items() if kind in kinds}
        labels[kind] = [
            [
                BETWEEN.join(_names({name: heads[layer][head] for name, heads in known.items()})[:2])
                for head in range(len(heads))
            ]
            for layer, heads in enumerate(layers)
        ]
    return labels


def _names(head: dict[str, float]) -> list[str]:
    """Return what one head does. The thresholds are conventions: 0.5 is half of the attention."""
    if "alignment_error" in head:
        aligns = head["alignment_error"] <= ALIGNMENT
    else:  # without gold links: low entropy and high coverage
        aligns = head.get("coverage", 0) >= 0.5 and head["spread"] <= 0.5 and head["special"] <= 0.3
    rules = {
        "coreference": head.get("antecedent", 0) >= COREFERENCE,
        "induction": head.get("induction", 0) >= 0.5,
        "alignment": aligns,
        **{label: head.get(name, 0) >= 0.5 for name, label in BY_WEIGHT},
    }
    names = [label for label, holds in rules.items() if holds]
    return names or (["broad"] if head["spread"] >= 0.8 else [])


BETWEEN = ", "
"""Between the names in a label."""

BY_WEIGHT = (
    ("duplicate", "duplicate token"),
    ("previous", "previous token"),
    ("first", "first token"),
    ("diagonal", "diagonal"),
)
"""Measures that are a share of the attention, in the order of preference, and the label of a head with half of it."""


def displayed(label: str) -> str:
    """Return a stored label as shown to users."""
    return "uniform" if label == "broad" else label


COREFERENCE = 50.0
"""Minimum percentage of pronouns whose antecedent gets more attention than any other preceding referent. On the
built-in stories chance is 28 %, and the rule "last subject" reaches 54 %."""

ALIGNMENT = 50.0
"""Maximum alignment error rate, in percent."""


def scalars(measures: Measures) -> dict[str, float]:
    """Average each measure over heads into TensorBoard scalars named `attention/<kind>/<layer>/<measure>`."""
    return {
        f"attention/{kind}/{layer}/{name}": float(np.mean(heads))
        for name, kinds in measures.items()
        for kind, layers in kinds.items()
        for layer, heads in enumerate(layers)
    }
