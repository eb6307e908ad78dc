"""Recordings like those of a training run, with known weights and various shapes."""

from __future__ import annotations

import numpy as np

from attention_maps.record.head_measures_and_labels import head_labels, head_measures
from attention_maps.record.recording import Kind, Prediction, Recording, Sample, Score, Tokens, tokens

ENGLISH = ["▁Emi", "▁prefer", "s", "▁apples", ".", "</s>"]
JAPANESE = ["<s>", "エミは", "りんごの", "方が", "好", "きです", "。", "</s>"]
STORY = ["</s>", "▁Kate", "▁hid", "▁her", "▁pen", ".", "▁She", "▁smiled", "."]

KNOWN = [0.5, 0.125, 0.125, 0, 0, 0.25]
"""What エミは attends to in head 0 of layer 0 of the cross-attention, at every step: exact in float16."""


def marked(pieces: list[str]) -> Tokens:
    """Return tokens with these pieces; <s> and </s> are special."""
    ids = [2 if piece == "<s>" else 3 if piece == "</s>" else 10 + place for place, piece in enumerate(pieces)]
    return tokens(ids, pieces, frozenset({2, 3}))


def maps(kind: Kind, layer: int, heads: int, queries: int, keys: int, step: int) -> np.ndarray:
    """Return weights [H,Q,K] that get sharper with the step and differ between heads."""
    logits = np.random.default_rng([layer, queries, keys]).normal(size=(heads, queries, keys)) * (1 + step / 100)
    if kind == "decoder":
        logits = np.where(np.tril(np.ones((queries, keys), bool)), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    if kind == "cross" and layer == 0:
        weights[0, 0] = KNOWN
    return weights.astype(np.float16)


def sample(
    reads: list[str],
    source: list[str] | None,
    step: int,
    *,
    layers: int = 2,
    heads: int = 3,
    name: str = "probe 1",
    length: int = 0,
) -> Sample:
    """Return an example with all applicable kinds of maps."""
    text = marked(reads if source is None else reads[:-1])
    kinds: list[Kind] = ["decoder"] if source is None else ["encoder", "decoder", "cross"]
    sizes = {"encoder": 2 * (len(source or ()),), "decoder": 2 * (len(text),), "cross": (len(text), len(source or ()))}
    weights = {(kind, layer): maps(kind, layer, heads, *sizes[kind], step) for kind in kinds for layer in range(layers)}
    predicts = marked(reads[1:])
    guesses = [Prediction(7, reads[place + 1] if place + 1 < len(reads) else "?", 0.75) for place in range(len(text))]
    return Sample(
        reads=text,
        predicts=predicts,
        source=marked(source) if source else None,
        losses=tuple(0.25 + place for place in range(len(predicts))),
        predictions=tuple((guess, Prediction(8, "▁or", 0.125)) for guess in guesses),
        weights=weights,
        norms={key: np.ones(array.shape[:2], np.float16) for key, array in weights.items()},
        values={
            key: np.linspace(1, 2, heads * array.shape[2]).astype(np.float16).reshape(heads, -1)
            for key, array in weights.items()
        },
        rollout={kind: weights[kind, 0].mean(axis=0).astype(np.float16) for kind in kinds if kind != "cross"},
        name=name,
        length=length or len(text),
        source_length=len(source or ()),
    )


def recording(step: int, *samples: Sample) -> Recording:
    """Return a recording with measures, labels, a score and a baseline."""
    measures = head_measures(samples)
    last = samples[0].layers("cross") - 1
    scores = (
        Score("alignment_error", f"layer {last} head 2", 40.0, "cross", last, 2, "reads"),
        Score("alignment_error", "diagonal", 70.0),
    )
    return Recording(step, samples, measures, head_labels(measures), scores if samples[0].source else ())


def translation(step: int) -> Recording:
    """Return two translation examples, one with HTML in its name."""
    return recording(
        step,
        sample(JAPANESE, ENGLISH, step),
        sample([*JAPANESE[:4], "</s>"], ENGLISH, step, name="<b>bold</b>", length=300),
    )
