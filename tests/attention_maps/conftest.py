"""The hand-made maps of lesson 1: self-attention of the English sentence and attention to the Japanese one."""

import numpy as np
import pytest

from attention_maps.record.recording import Prediction, Recording, Sample, tokens

ENGLISH = ["nah", "I", "d", "win"]
JAPANESE = ["いいえ", "勝つ", "さ"]

CAUSAL = [[1, 0, 0, 0], [0.2, 0.8, 0, 0], [0.8, 0.1, 0.1, 0], [0.3, 0.5, 0.1, 0.1]]
CROSS = [[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.33, 0.33, 0.33], [0.15, 0.8, 0.05]]


@pytest.fixture
def lesson() -> Recording:
    """Return one sample with two layers: head 0 of layer 0 is the lesson's, head 1 and layer 1 are uniform."""

    def heads(matrix: list[list[float]], flat: np.ndarray) -> np.ndarray:
        return np.stack([np.array(matrix), flat]).astype(np.float16)

    causal = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    weights = {
        ("decoder", 0): heads(CAUSAL, causal),
        ("decoder", 1): np.stack([causal, causal]).astype(np.float16),
        ("cross", 0): heads(CROSS, np.full((4, 3), 1 / 3)),
        ("cross", 1): np.full((2, 4, 3), 1 / 3, np.float16),
        ("encoder", 0): np.full((2, 3, 3), 1 / 3, np.float16),
        ("encoder", 1): np.full((2, 3, 3), 1 / 3, np.float16),
    }
    sample = Sample(
        reads=tokens([2, 5, 6, 7], ENGLISH, frozenset({2})),
        predicts=tokens([5, 6, 7, 3], ["I", "d", "win", "</s>"], frozenset({3})),
        source=tokens([9, 10, 11], JAPANESE, frozenset()),
        losses=(1.5, 0.25, 0.5, 0.75),
        predictions=tuple((Prediction(5, "I", 0.5), Prediction(6, "d", 0.25)) for _ in ENGLISH),
        weights=weights,
        norms={key: np.arange(2 * w.shape[1], dtype=np.float16).reshape(2, -1) for key, w in weights.items()},
        name="probe 1",
        length=4,
        source_length=3,
    )
    return Recording(1000, (sample,))
