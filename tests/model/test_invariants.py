"""Properties for any weights: causality, no influence of padding, token ids within the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

Sharpen = Callable[[Any], Any]


def test_future_tokens_never_change_the_past(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a leak of the target, which makes training losses low and generated text useless."""
    gpt: GPT = sharpen(GPT(config, 19))
    tokens = torch.randint(19, (3, 12))
    logits = gpt(tokens)
    for position in (1, 5, 11):
        changed = tokens.clone()
        changed[:, position:] = (changed[:, position:] + 7) % 19
        again = gpt(changed)
        torch.testing.assert_close(again[:, :position], logits[:, :position], rtol=1e-5, atol=1e-5)
        assert (again[:, position] - logits[:, position]).abs().max() > 1e-3  # the token itself is visible


def test_every_past_token_reaches_every_later_one(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a mask that hides too many tokens, which no test of causality detects."""
    gpt: GPT = sharpen(GPT(config, 19))
    embedded = gpt.embedding.tokens.weight
    tokens = torch.arange(12).unsqueeze(0)  # 12 different tokens, each with its own embedding row
    gpt.head.weight = torch.nn.Parameter(gpt.head.weight.detach().clone())  # untied: only the input's gradients
    gradient = torch.autograd.grad(gpt(tokens)[0, -1].square().sum(), embedded)[0]
    assert (gradient[:12].abs().sum(-1) > 0).all()


def test_the_target_of_a_translation_has_no_future_either(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against the same leak in the translator's decoder, where cross-attention is not causal."""
    model: EncoderDecoder = sharpen(EncoderDecoder(config, 19, 23))
    source, target = torch.randint(19, (3, 9)), torch.randint(23, (3, 12))
    logits = model(source, target)
    changed = target.clone()
    changed[:, 6:] = (changed[:, 6:] + 7) % 23
    torch.testing.assert_close(model(source, changed)[:, :6], logits[:, :6], rtol=1e-5, atol=1e-5)
    last_source_token = source.clone()
    last_source_token[:, -1] = (source[:, -1] + 7) % 19
    assert (model(last_source_token, target)[:, 0] - logits[:, 0]).abs().max() > 1e-3


def test_padding_never_changes_a_real_token(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against padded batches translated differently from single sentences, whatever the padded values are."""
    model: EncoderDecoder = sharpen(EncoderDecoder(config, 19, 23))
    lengths = [(9, 12), (4, 7), (1, 2)]  # source and target of each pair
    source, target = torch.randint(19, (3, 9)), torch.randint(23, (3, 12))
    mask = torch.arange(9) < torch.tensor([[s] for s, _ in lengths])
    logits = model(source, target, mask)
    for row, (s, t) in enumerate(lengths):
        alone = model(source[row : row + 1, :s], target[row : row + 1, :t])
        torch.testing.assert_close(logits[row : row + 1, :t], alone, rtol=1e-5, atol=1e-5)
    other_padding = torch.where(mask, source, (source + 5) % 19)
    torch.testing.assert_close(model(other_padding, target, mask), logits, rtol=1e-5, atol=1e-5)


def test_a_mask_without_padding_is_no_mask(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a different result without a mask: batches without padding are passed without one."""
    model: EncoderDecoder = sharpen(EncoderDecoder(config, 19, 23))
    source, target = torch.randint(19, (3, 9)), torch.randint(23, (3, 12))
    everything = torch.ones(3, 9, dtype=torch.bool)
    torch.testing.assert_close(model(source, target, everything), model(source, target), rtol=1e-5, atol=1e-5)


def test_rows_of_a_batch_do_not_mix(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a wrong reshape between heads and batch."""
    gpt: GPT = sharpen(GPT(config, 19))
    tokens = torch.randint(19, (3, 12))
    torch.testing.assert_close(gpt(tokens)[1:2], gpt(tokens[1:2]), rtol=1e-5, atol=1e-5)


def test_tokens_beyond_the_context_are_refused_where_positions_end() -> None:
    """Guards against an index error from deep inside, or a silent wrap-around, instead of a clear message."""
    learned = ModelConfig(layers=1, heads=2, width=32, context=8, position="learned")
    with pytest.raises(ValueError, match=r"9 tokens .* model\.context=8"):
        GPT(learned, 19)(torch.zeros(1, 9, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"9 tokens .* model\.context=8"):
        EncoderDecoder(learned, 19, 19)(torch.zeros(1, 9, dtype=torch.int64), torch.zeros(1, 4, dtype=torch.int64))


@pytest.mark.parametrize("position", ["rotary", "sinusoidal"])
def test_computed_positions_go_on_beyond_the_context(position: str, sharpen: Sharpen) -> None:
    """Guards against positions beyond the precomputed table that differ from those of a longer table."""
    short = ModelConfig(layers=1, heads=2, width=32, context=8, position=position)
    model = sharpen(GPT(short, 19))
    longer = GPT(replace(short, context=64), 19).eval()
    longer.load_state_dict(model.state_dict())
    tokens = torch.randint(19, (2, 40))
    assert torch.equal(model(tokens), longer(tokens))


def test_padding_of_the_vocabulary_is_never_predicted() -> None:
    """Guards against sampled ids that the tokenizer does not have, which can happen in nanoGPT."""
    config = ModelConfig(layers=1, heads=2, width=32, context=8, vocab_multiple=64)
    gpt = GPT(config, 70)
    assert gpt.head.weight.shape == (128, 32)
    assert gpt(torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, 70)
    assert gpt.output_weight.shape == (70, 32)
    model = EncoderDecoder(config, 70, 65)
    assert model(torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, 65)


def test_embeddings_are_shared_as_configured() -> None:
    """Guards against three-way tying that is lost, which costs parameters and quality, and tying of different
    vocabularies."""
    config = ModelConfig(layers=1, heads=2, width=32, context=8)
    three = EncoderDecoder(config, 70, 70, shared=True)
    table = three.head.weight
    assert three.source_embedding.tokens.weight is table
    assert three.target_embedding.tokens.weight is table
    two = EncoderDecoder(config, 70, 70)
    assert two.target_embedding.tokens.weight is two.head.weight
    assert two.source_embedding.tokens.weight is not two.head.weight
    apart = EncoderDecoder(replace(config, tie_embeddings=False, share_embeddings=False), 70, 70, shared=True)
    tables = {apart.head.weight, apart.source_embedding.tokens.weight, apart.target_embedding.tokens.weight}
    assert len(tables) == 3
    assert GPT(config, 70).head.weight.shape == (70, 32)
    with pytest.raises(ValueError, match="one size"):
        EncoderDecoder(config, 70, 71, shared=True)
