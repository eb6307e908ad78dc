"""Recordings of weights that other programs have computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attention_maps.base.errors import UserError
from attention_maps.files.store import load, save
from attention_maps.record.arrays import recording_of_arrays, recording_of_cache, together

WORDS = ["<s>", " nah", " I", " d", " win"]
SOURCE = ["▁いいえ", "勝つ", "さ"]


def weights(rows: int, columns: int, layers: int = 2, causal: bool = False) -> np.ndarray:
    scores = np.random.default_rng(rows).normal(size=(layers, 3, rows, columns))
    if causal:
        scores += np.triu(np.full((rows, columns), -np.inf), 1)
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


def test_arrays_of_one_stack(tmp_path: Path) -> None:
    """Guards against an encoder that is shown as causal, and labels without words."""
    causal = weights(5, 5, causal=True)
    decoder = load(save(recording_of_arrays(causal, WORDS, step=3), tmp_path))
    assert np.abs(decoder.maps(0, "decoder", 1) - causal[1]).max() < 1e-3
    assert decoder.samples[0].reads.pieces == ("<s>", "▁nah", "▁I", "▁d", "▁win")
    assert decoder.samples[0].reads.special == (True, False, False, False, False)
    assert decoder.weight("win", "I", kind="decoder", layer=0, head=1) == pytest.approx(causal[0, 1, 4, 2], abs=1e-3)
    encoder = recording_of_arrays(torch.tensor(weights(5, 5)), WORDS)
    assert encoder.samples[0].source is not None
    assert encoder.samples[0].weights.keys() == {("encoder", 0), ("encoder", 1)}
    assert len(encoder.samples[0].reads) == 0


def test_arrays_of_an_encoder_decoder(tmp_path: Path) -> None:
    """Guards against sides that are exchanged."""
    by_kind: dict[Any, Any] = {"encoder": weights(3, 3), "decoder": weights(5, 5, causal=True), "cross": weights(5, 3)}
    first, second = (recording_of_arrays(by_kind, WORDS, SOURCE, name=name) for name in ("one", "two"))
    both = load(save(together(first, second), tmp_path))
    assert [sample.name for sample in both.samples] == ["one", "two"]
    assert both.weight("win", "勝つ", kind="cross", layer=1, head=2) == pytest.approx(
        by_kind["cross"][1, 2, 3, 1], abs=1e-3
    )
    assert both.labels.keys() == {"encoder", "decoder", "cross"}
    with pytest.raises(UserError, match="the same layers and heads"):
        together(first, recording_of_arrays(weights(3, 3), SOURCE))


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (weights(4, 4), r"must be \[layers, heads, 5, 5\]"),
        (weights(5, 5)[0], "are \\[3, 5, 5\\]"),
        (np.log(weights(5, 5)), "must sum to 1"),
        ({"decoder": weights(5, 5)}, "later tokens must be 0"),
        ({"self": weights(5, 5)}, "no such kind"),
        ({}, "no attention weights"),
    ],
)
def test_wrong_arrays_are_refused(arrays: Any, problem: str) -> None:
    """Guards against a map whose labels belong to other rows, and scores in place of weights."""
    with pytest.raises(UserError, match=problem):
        recording_of_arrays(arrays, WORDS)


class Cache(dict[str, torch.Tensor]):
    """As in TransformerLens, iteration yields values."""

    def __iter__(self) -> Any:
        return iter(self.values())


def test_a_cache_of_transformer_lens(tmp_path: Path) -> None:
    """Guards against a wrong row of the batch, and against misnumbered layers, if only some were kept."""
    causal = torch.tensor(weights(5, 5, layers=4, causal=True))
    outputs = torch.randn(2, 5, 3, 8)
    cache = Cache({f"blocks.{layer}.attn.hook_pattern": torch.stack([causal[0], causal[layer]]) for layer in (1, 3)})
    cache |= {f"blocks.{layer}.attn.hook_z": outputs for layer in (1, 3)} | {"blocks.1.hook_resid_pre": torch.zeros(1)}
    recording = load(save(recording_of_cache(cache, WORDS, row=1), tmp_path))
    assert recording.layer_numbers == {"decoder": (1, 3)}
    assert np.abs(recording.maps(0, "decoder", 1) - causal[3].numpy()).max() < 1e-3
    norms = recording.samples[0].norms["decoder", 0]
    assert np.abs(norms - outputs[1].norm(dim=-1).T.numpy()).max() < 5e-3
    assert recording.samples[0].rollout == {}
    with pytest.raises(UserError, match="no attention weights"):
        recording_of_cache({"blocks.0.hook_resid_pre": torch.zeros(1)}, WORDS)


def test_a_cache_of_an_encoder_decoder() -> None:
    """Guards against cross-attention that is taken for self-attention."""
    cache = {
        "encoder.0.attn.hook_pattern": torch.tensor(weights(3, 3)[:1]),
        "decoder.0.attn.hook_pattern": torch.tensor(weights(5, 5, causal=True)[:1]),
        "decoder.0.cross_attn.hook_pattern": torch.tensor(weights(5, 3)[:1]),
    }
    recording = recording_of_cache(cache, WORDS, SOURCE)
    assert recording.samples[0].weights.keys() == {("encoder", 0), ("decoder", 0), ("cross", 0)}
    assert recording.samples[0].rollout.keys() == {"encoder", "decoder"}
    encoder = recording_of_cache({"blocks.0.attn.hook_pattern": torch.tensor(weights(3, 3)[:1])}, SOURCE)
    assert encoder.samples[0].weights.keys() == {("encoder", 0)}
