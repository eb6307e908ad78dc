"""Recorded predictions: of the model, after each layer, and what each part contributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attention_maps.files import store
from attention_maps.record.example import Example
from attention_maps.record.recording import Recording
from interpretability.recorder import record
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

SHAPE = ModelConfig(layers=3, heads=2, width=32, context=40, bias=True, norm="layer")


class Letters:
    """A tokenizer of 30 letters."""

    bos_id, eos_id = 1, 2

    def pieces(self, ids: list[int]) -> list[str]:
        return [chr(97 + token) for token in ids]


def recorded(task: str) -> tuple[GPT | EncoderDecoder, list[Example], Recording]:
    """Return a model with random weights, two examples of different lengths, and their recording."""
    torch.manual_seed(2)
    model = GPT(SHAPE, 30) if task == "gpt" else EncoderDecoder(SHAPE, 30, 30)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    texts = [torch.randint(4, 30, (length,)).tolist() for length in (9, 17)]
    letters = Letters()
    if task == "gpt":
        examples = [Example.text(text, letters) for text in texts]
    else:
        examples = [Example.pair(text[::-1], text, letters, letters) for text in texts]
    return model, examples, record(model.eval(), examples, (), 5, pieces=letters.pieces)


@pytest.mark.parametrize("task", ["gpt", "translate"])
@torch.no_grad()
def test_stored_contributions_add_up_to_the_logits(task: str, tmp_path: Path) -> None:
    """Guards the bars of the tab: read from a file, at every position, for every candidate."""
    model, examples, recording = recorded(task)
    loaded = store.load(store.save(recording, tmp_path))
    assert loaded.parts == recording.parts
    assert loaded.parts[0].kind == "embedding"
    for example, sample in zip(examples, loaded.samples, strict=True):
        assert sample.attribution is not None
        assert sample.logits is not None
        sides = [side for side in (example.source_ids, example.target_ids) if side is not None]
        logits = model(*(torch.tensor([side]) for side in sides))[0]
        for row in range(len(sample.reads)):
            candidates = list(sample.candidates(row))
            wanted = (logits[row, candidates] - logits[row].mean()).numpy()
            tolerance = 1e-4 * np.abs(wanted).clip(1)
            assert (np.abs(sample.logits[:, row] - wanted) < tolerance).all()
            assert (np.abs(sample.attribution[:, :, row].sum(axis=1) - sample.logits[:, row]) < tolerance).all()
        assert sample.candidates(0)[0] == example.next_ids[0]


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_the_lens_has_the_layers_before_the_last(task: str, tmp_path: Path) -> None:
    """Guards the rows of the lens: probabilities that fall, for every position and layer but the last."""
    _, _, recording = recorded(task)
    (first, second) = store.load(store.save(recording, tmp_path)).samples
    for sample in (first, second):
        assert [len(layer) for layer in sample.lens] == [len(sample.reads)] * 2
        for row in (row for layer in sample.lens for row in layer):
            assert len(row) == 3
            assert row[0].probability >= row[1].probability >= row[2].probability
            assert row[0].piece == chr(97 + row[0].id)


@torch.no_grad()
def test_a_batch_gives_what_single_examples_give() -> None:
    """Guards against padding that enters a map, a prediction or a contribution."""
    for task in ("gpt", "translate"):
        model, examples, together = recorded(task)
        for example, sample in zip(examples, together.samples, strict=True):
            (alone,) = record(model, [example], (), 5, pieces=Letters().pieces).samples
            assert sample.reads == alone.reads
            assert sample.losses == pytest.approx(alone.losses, abs=1e-4)
            assert sample.attribution is not None
            assert alone.attribution is not None
            assert np.allclose(sample.attribution, alone.attribution, atol=0.02)
            for key, weights in alone.weights.items():
                assert sample.weights[key].shape == weights.shape
                assert np.allclose(sample.weights[key], weights, atol=1e-3)
                assert np.allclose(sample.norms[key], alone.norms[key], atol=1e-2)
                assert np.allclose(sample.values[key], alone.values[key], atol=1e-2)
