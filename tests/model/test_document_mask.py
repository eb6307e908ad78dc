"""Document mask: each document of a window is processed as if it were alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from generation.fast_decoding import prepare
from model.config import ModelConfig
from model.gpt import GPT
from model.layers import RMSNorm
from model.masks import document_mask
from model.recording import record_attention

Sharpen = Callable[[Any], Any]

EOS = 3
WINDOW = torch.tensor([7, 5, EOS, 9, 4, 8, 6, EOS, EOS, 11, 5, 7])
BORDERS = (0, 2, 7, 8, 12)
"""The end of one document, a complete one, an empty one, and the start of another."""


def masked(config: ModelConfig, sharpen: Sharpen) -> GPT:
    """Return a GPT of this configuration with document masking."""
    gpt: GPT = sharpen(GPT(replace(config, mask_documents=True), 19, EOS))
    return gpt


def expected_mask(tokens: Tensor) -> Tensor:
    """Compute the mask by loops: from each token, itself included, back to the eos before its document."""
    rows, length = tokens.shape
    mask = torch.zeros(rows, length, length, dtype=torch.bool)
    for row in range(rows):
        for query in range(length):
            for key in range(query, -1, -1):
                mask[row, query, key] = True
                if tokens[row, key] == EOS:
                    break
    return mask


def test_a_token_sees_its_document_up_to_itself() -> None:
    """Guards against an eos that belongs to the wrong document, and boundaries of one row used for another row."""
    tokens = torch.randint(2, 6, (5, 30))
    assert torch.equal(document_mask(tokens == EOS), expected_mask(tokens))


@pytest.mark.parametrize("config", ["rotary", "grouped"], indirect=True)  # added positions depend on the offset
def test_documents_of_a_window_are_read_as_if_alone(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against any leak between documents. With rotary positions, which are relative, a document may be at any
    offset."""
    gpt = masked(config, sharpen)
    logits = gpt(WINDOW.unsqueeze(0))
    for first, last in itertools.pairwise(BORDERS):
        torch.testing.assert_close(logits[:, first:last], gpt(WINDOW[None, first:last]), rtol=1e-4, atol=1e-4)


def test_other_documents_change_nothing(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against the same leak with added positions, and between rows."""
    gpt = masked(config, sharpen)
    other = WINDOW.clone()
    other[[0, 1, 9, 10, 11]] = torch.tensor([13, 14, 15, 16, 17])
    logits = gpt(torch.stack((WINDOW, other)))
    torch.testing.assert_close(logits[0, 2:9], logits[1, 2:9], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits[0, 9:], logits[1, 9:], atol=1e-2)


def test_no_gradient_crosses_a_border(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a mask that is missing in the backward pass."""
    gpt = masked(replace(config, tie_embeddings=False), sharpen)
    tokens = torch.tensor([[10, 11, 12, EOS, 13, 14, 15]])
    table = gpt.embedding.tokens.weight
    logits = gpt(tokens)[0]
    of_first, of_second = (
        torch.autograd.grad(part.square().sum(), table, retain_graph=True)[0] for part in (logits[:3], logits[3:])
    )
    assert of_first[10:13].abs().sum(-1).all()
    assert not of_first[[EOS, 13, 14, 15]].any()
    assert of_second[[EOS, 13, 14, 15]].abs().sum(-1).all()
    assert not of_second[10:13].any()


@torch.no_grad()
def test_without_the_setting_nothing_changes_to_the_bit(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a mask, or changed weights, in models without the setting."""
    plain, knows_eos = GPT(config, 19), GPT(config, 19, EOS)
    assert plain.state_dict().keys() == knows_eos.state_dict().keys()
    knows_eos.load_state_dict(plain.state_dict())
    tokens = WINDOW.unsqueeze(0)
    assert torch.equal(plain(tokens), knows_eos(tokens))
    with_mask = GPT(replace(config, mask_documents=True), 19, EOS)
    with_mask.load_state_dict(plain.state_dict())
    assert not torch.allclose(with_mask(tokens), plain(tokens), atol=1e-4)


@torch.no_grad()
def test_maps_end_at_the_borders(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against maps of attention without the document mask."""
    gpt = masked(config, sharpen)
    tokens = WINDOW.unsqueeze(0)
    hidden = ~expected_mask(tokens).unsqueeze(1)
    with record_attention(gpt) as recording:
        recorded = gpt(tokens)
    torch.testing.assert_close(recorded, gpt(tokens), rtol=1e-5, atol=1e-5)
    assert recording.deviation < 1e-5
    for weights in recording.weights.values():
        assert not weights[hidden.expand_as(weights)].any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@torch.no_grad()
def test_a_cache_continues_one_document(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against decoding with other keys than in training, with the original model or prepared for decoding."""
    gpt = masked(config, sharpen)
    tokens = torch.tensor([[EOS, 9, 4, 8, 6, 11, 5]])
    expected = gpt(tokens)
    for model in (gpt, prepare(gpt, "float32")):
        cache = model.new_cache()
        steps = [model(tokens[:, :3], cache), *(model(tokens[:, t : t + 1], cache) for t in range(3, 7))]
        torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-4)
    window = WINDOW.unsqueeze(0)
    torch.testing.assert_close(prepare(gpt, "float32")(window), gpt(window), rtol=1e-4, atol=1e-4)


def test_a_model_that_cannot_know_documents_is_refused() -> None:
    """Guards against a requested mask that is silently ignored."""
    with pytest.raises(ValueError, match=r"model\.mask_documents"):
        GPT(ModelConfig(mask_documents=True), 19)


@pytest.mark.parametrize("heads", [6, 12])
def test_heads_of_128_work_as_those_of_64(heads: int, sharpen: Sharpen) -> None:
    """Guards against a rotation, norm or kernel that supports only one head width."""
    config = ModelConfig(layers=1, heads=heads, width=768, context=16, feed_forward=32)
    gpt: GPT = sharpen(GPT(config, 19))
    tokens = torch.randint(19, (2, 16))
    assert isinstance(gpt.blocks[0].attention.query_key_norm, RMSNorm)
    with record_attention(gpt) as recording:
        recorded = gpt(tokens)
    assert recording.weights["decoder", 0].shape == (2, heads, 16, 16)
    torch.testing.assert_close(gpt(tokens), recorded, rtol=1e-4, atol=1e-4)
    gpt(tokens).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in gpt.parameters())
