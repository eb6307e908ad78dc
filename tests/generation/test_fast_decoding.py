"""A model prepared for decoding computes the same as the original model, up to the requested rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.fast_decoding import (
    FORMATS,
    DecodingBlock,
    DecodingRMSNorm,
    PackedFloat32Linear,
    PackedLinear,
    packs,
    packs_float32,
    prepare,
)
from generation.sampling import generate
from model.block_variants import block_class
from model.blocks import DecoderBlock
from model.cache import KVCache
from model.config import ModelConfig
from model.embedding import make_rotary
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.layers import RMSNorm

Sharpen = Callable[[Any], Any]
ROUNDING = {"float32": 1e-5, "bf16": 0.04}
"""Allowed relative difference of logits, by weight format."""


TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}, torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2}}


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


def bf16_linear() -> tuple[nn.Module, nn.Module]:
    plain = nn.Linear(32, 24).bfloat16()
    if not packs(plain.weight):
        pytest.skip("oneDNN has no bfloat16 here")
    return plain, PackedLinear(plain)


def float32_linear() -> tuple[nn.Module, nn.Module]:
    plain = nn.Linear(32, 24)
    if not packs_float32(plain.weight, 10):
        pytest.skip("torch was built without MKL")
    return plain, PackedFloat32Linear(plain, 10)


def norm() -> tuple[nn.Module, nn.Module]:
    plain = RMSNorm(32)
    nn.init.normal_(plain.weight)
    return plain, DecodingRMSNorm(plain)


LAYERS = {"PackedLinear": bf16_linear, "PackedFloat32Linear": float32_linear, "DecodingRMSNorm": norm}
"""Pairs of a layer and its decoding form."""


@pytest.mark.parametrize("kind", LAYERS)
@torch.no_grad()
def test_a_layer_for_decoding_is_the_plain_one(kind: str) -> None:
    """Guards against wrong layouts and biases, and a misplaced epsilon of the norm, which shows in rows near zero."""
    plain, fast = LAYERS[kind]()
    x = torch.randn(2, 5, 32) * torch.tensor([0.0, 1e-4, 1e-3, 1.0, 30.0]).unsqueeze(1)
    dtype = next(plain.parameters()).dtype
    torch.testing.assert_close(fast(x.to(dtype)), plain(x.to(dtype)), **TOLERANCE[dtype])


@pytest.mark.parametrize("rows", [1, 20])
@torch.no_grad()
def test_a_block_for_decoding_is_the_plain_one(config: ModelConfig, rows: int) -> None:
    """Guards against a step of the block that its decoding form omits, with and without a cache."""
    if config.block == "post_norm":
        pytest.skip("`prepare` leaves post-norm blocks as they are")
    block = block_class(DecoderBlock, config)(config, 0).eval()
    fast, x = DecodingBlock(block), torch.randn(rows, 6, config.width)
    rotary = make_rotary(config)
    results = []
    for form in (block, fast):
        cache, outputs = KVCache(6), [form(x, rotary(0, 6) if rotary else None)]
        for first, last in ((0, 3), (3, 4), (4, 6)):
            rotation = rotary(first, last - first) if rotary else None
            outputs.append(form(x[:, first:last], rotation, cache))
            cache.advance(last - first)
        results.append(torch.cat(outputs, dim=1))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
