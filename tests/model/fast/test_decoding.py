"""A model prepared for decoding computes the same as the original model, up to the requested rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.sampling import generate
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.fast.decoding import FORMATS, prepare
from model.gpt import GPT

Sharpen = Callable[[Any], Any]
ROUNDING = {"float32": 1e-5, "bf16": 0.04}
"""Allowed relative difference of logits, by weight format."""


def difference(ours: Tensor, plain: Tensor) -> float:
    """Return the norm of the difference relative to the norm of the expected tensor."""
    return float((ours.float() - plain).norm() / plain.norm())


FORMS = [*((weights, None) for weights in FORMATS), ("float32", 8)]
"""Arguments of `prepare` that cover all formats."""


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "rows"), FORMS)
@torch.no_grad()
def test_prepared_logits_are_those_of_the_plain_model(
    config: ModelConfig, sharpen: Sharpen, weights: str, rows: int | None
) -> None:
    """Guards against wrong biases, gains, scales and layouts of any layer, with and without a cache, in both kinds of
    model."""
    gpt, tokens = sharpen(GPT(config, 19)), torch.randint(19, (max(3, rows or 0), 12))
    ready = prepare(gpt, weights, rows)
    assert difference(ready(tokens), gpt(tokens)) < ROUNDING[weights]
    cache = ready.new_cache()
    pieces = [ready(tokens[:, a:b], cache) for a, b in ((0, 5), (5, 6), (6, 12))]
    assert difference(torch.cat(pieces, dim=1), gpt(tokens)) < ROUNDING[weights]
    translator, source = sharpen(EncoderDecoder(config, 19, 23)), torch.randint(19, (len(tokens), 9))
    assert (
        difference(prepare(translator, weights, rows)(source, tokens), translator(source, tokens)) < ROUNDING[weights]
    )


@pytest.mark.slow
def test_prepared_float32_writes_and_translates_the_same(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against faster layers that choose other tokens."""
    gpt: GPT = sharpen(GPT(config, 19))
    settings = SamplingConfig(max_tokens=30)
    prompts = [[1, 5, 2], [4]]
    assert list(generate(prepare(gpt, "float32"), prompts, settings)) == list(generate(gpt, prompts, settings))
    translator: EncoderDecoder = sharpen(EncoderDecoder(config, 19, 23))
    options = {"bos_id": 2, "eos_id": 3, "beam_size": 3, "max_length": 10}
    source = torch.randint(4, 19, (6, 9))
    ready = beam_search(prepare(translator, "float32"), source, **options)
    assert [best.tokens for (best,) in ready] == [best.tokens for (best,) in beam_search(translator, source, **options)]


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "rows"), FORMS)
def test_a_text_of_a_prepared_model_does_not_depend_on_the_others(
    weights: str, rows: int | None, sharpen: Sharpen
) -> None:
    """Guards against layers in which the rows of a batch influence each other."""
    gpt = sharpen(GPT(ModelConfig(layers=2, heads=4, width=64, context=32), 19))
    ready = prepare(gpt, weights, rows)
    settings = SamplingConfig(max_tokens=20)
    (alone,) = zip(*generate(ready, [[1, 5, 2]], settings), strict=True)
    together = list(zip(*generate(ready, [[1, 5, 2], [4], [7, 7, 7, 7]], settings), strict=True))
    assert together[0] == alone


def test_preparing_leaves_the_model_alone(sharpen: Sharpen) -> None:
    """Guards against changed weights of the original model, which maps and training continue to use."""
    gpt = sharpen(GPT(ModelConfig(layers=1, heads=2, width=32, context=8), 19)).train()
    before = {name: tensor.clone() for name, tensor in gpt.state_dict().items()}
    prepare(gpt, "bf16")
    assert gpt.training
    assert all(parameter.requires_grad for parameter in gpt.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in gpt.state_dict().items())
    assert isinstance(gpt.head, nn.Linear)


def test_an_unknown_format_is_named() -> None:
    """Guards against a misspelt format that silently decodes in float32."""
    with pytest.raises(ValueError, match="float32, bf16, not 'int8'"):
        prepare(nn.Linear(2, 2), "int8")
