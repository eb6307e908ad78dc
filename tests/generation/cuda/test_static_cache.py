"""Decoding with caches of static shape generates the same as decoding with growing caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.cuda.beam_search import beam_search_with_graphs
from generation.cuda.sampling import generate_with_graphs
from generation.cuda.static_cache import StaticBeamCache, StaticCache, padded_length
from generation.fast_decoding import prepare
from generation.sampling import generate
from model.cache import BeamCache
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

Sharpen = Callable[[Any], Any]
PROMPTS = [[7, 3, 5], [1], list(range(16)), [4, 4, 9, 2, 6, 18, 0], [*range(18), 3, 2, 1]]
"""Of lengths 3, 1, 16, 7 and 21, for a context of 16: the last does not fit, and each overflows at another time."""


@pytest.fixture
def gpt(config: ModelConfig, sharpen: Sharpen) -> GPT:
    """Return each variant of the architecture, with a vocabulary of 19 padded to 32."""
    return sharpen(GPT(replace(config, vocab_multiple=32), 19))


def both_ways(gpt: GPT, config: SamplingConfig, **options: Any) -> list[list[list[int | None]]]:
    """Return what `generate` yields with a growing cache and with a static cache."""
    return [list(form(gpt, PROMPTS, config, **options)) for form in (generate, generate_with_graphs)]


@pytest.mark.slow
@pytest.mark.usefixtures("poisoned_memory")
def test_sampling_with_a_static_cache_equals_a_growing_cache(gpt: GPT) -> None:
    """Guards positions, masks and random numbers counted on the device, past the context and past 64 steps, row by
    row."""
    growing, static = both_ways(gpt, SamplingConfig(max_tokens=80), seed=3)
    assert static == growing
    assert len(growing) == 80


def test_all_filters_are_the_same_with_a_static_cache(gpt: GPT) -> None:
    """Guards banned tokens, filters, and the tokens seen, which the step itself must update."""
    for config in (
        SamplingConfig(temperature=0.0, repetition_penalty=1.7, max_tokens=30),
        SamplingConfig(temperature=1.4, top_k=9, top_p=0.9, min_p=0.01, repetition_penalty=1.2, max_tokens=30),
    ):
        growing, static = both_ways(gpt, config, banned_ids={2, 5})
        assert static == growing
        assert not {2, 5} & {token for tokens in static for token in tokens}


def test_texts_that_ended_stay_in_step_and_are_not_told(gpt: GPT) -> None:
    """Guards against tokens after the end of a text, effects on other rows, and steps after the end of all texts."""
    free, _ = both_ways(gpt, SamplingConfig(max_tokens=60))
    stop_ids = {token for token in free[20] if token is not None}
    growing, static = both_ways(gpt, SamplingConfig(max_tokens=60), stop_ids=stop_ids)
    assert static == growing
    assert len({[*text, None].index(None) for text in zip(*growing, strict=True)}) > 1, "texts should end one by one"


def test_one_token_asked_for_is_one_token_written(gpt: GPT) -> None:
    """Guards against running a step ahead if there is none left."""
    growing, static = both_ways(gpt, SamplingConfig(max_tokens=1))
    assert static == growing
    assert len(static) == 1


def test_a_prepared_model_works_with_a_static_cache_too(gpt: GPT) -> None:
    """Guards the fast form of a block for a single token, which has no mask."""
    ready = prepare(gpt, "float32")
    growing, static = both_ways(ready, SamplingConfig(max_tokens=40))
    assert static == growing


@torch.no_grad()
def test_longer_rows_make_attention_see_more(sharpen: Sharpen) -> None:
    """Guards against keys beyond the current length when a text passes from one shape to the next."""
    gpt: GPT = sharpen(GPT(ModelConfig(layers=2, heads=4, kv_heads=2, width=32, context=300), 19))
    tokens = torch.randint(19, (2, 290))
    lengths = [250, 120]
    filled = gpt.new_cache()
    gpt(tokens[:, :250], filled)
    cache, shapes = StaticCache(filled, lengths, 290), set()
    for step in range(20):
        cache.cover(250 + step + 1)
        shapes.add(cache.width)
        inputs = torch.stack([tokens[row, length + step] for row, length in enumerate(lengths)]).unsqueeze(1)
        logits = gpt(inputs, cache)[:, -1]
        for row, length in enumerate(lengths):
            whole = gpt(tokens[row : row + 1, : length + step + 1])[0, -1]
            torch.testing.assert_close(logits[row], whole, rtol=1e-4, atol=1e-4)
    assert shapes == {256, 512}


@pytest.mark.slow
@pytest.mark.usefixtures("poisoned_memory")
@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("prepared", [True, False])
def test_beam_search_with_a_static_cache_equals_a_growing_cache(
    config: ModelConfig, sharpen: Sharpen, beam_size: int, prepared: bool
) -> None:
    """Guards the back-pointers, limits of single sentences, padding, and sentences that finish early."""
    model: EncoderDecoder = sharpen(EncoderDecoder(replace(config, vocab_multiple=4), 11, 6))
    if prepared:
        model = prepare(model, "float32")
    source = torch.randint(4, 11, (9, 6))
    mask = torch.arange(6) < torch.tensor([6, 2, 1, 5, 6, 3, 4, 6, 1]).unsqueeze(1)
    options: dict[str, Any] = {
        "bos_id": 2,
        "eos_id": 3,
        "beam_size": beam_size,
        "n_best": beam_size,
        "banned_ids": {0, 2},
        "max_length": torch.tensor([16, 4, 9, 1, 6, 16, 16, 2, 12]),
    }
    for source_mask in (mask, None):
        growing = beam_search(model, source, source_mask, **options)
        static = beam_search_with_graphs(model, source, source_mask, **options)
        for row, expected in zip(static, growing, strict=True):
            assert [h.tokens for h in row] == [h.tokens for h in expected]
            assert [h.score for h in row] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_hypotheses_of_a_static_cache_see_what_those_of_a_growing_one_see() -> None:
    """Guards against ancestors lost when attention covers more steps, or reordered by another sentence's parents."""
    growing, static = BeamCache(130, 3), StaticBeamCache(130, 3, torch.device("cpu"))
    for step in range(130):
        new = torch.randn(2, 1, 3, 4)
        static.cover(step + 1)
        keys, _, mask = growing.append(0, new, -new)
        fixed_keys, fixed_values, fixed_mask = static.append(0, new, -new)
        assert mask is not None
        assert fixed_mask is not None
        assert fixed_keys.shape[2] == 3 * padded_length(step + 1)
        for sentence, hypothesis in ((0, 1), (1, 2)):
            seen = fixed_keys[sentence, 0, fixed_mask[sentence, hypothesis]]
            assert torch.equal(seen, keys[sentence, 0, mask[sentence, hypothesis]])
            assert torch.equal(seen, -fixed_values[sentence, 0, fixed_mask[sentence, hypothesis]])
        assert (static.positions(3)[0], static.positions(3)[1]) == (torch.tensor([step]), 1)
        parents = torch.randint(3, (2, 3))
        for cache in (growing, static):
            cache.advance(3)
            cache.follow(parents)


def test_a_static_cache_refuses_what_it_cannot_do(sharpen: Sharpen) -> None:
    """Guards against several tokens written to one place, and changes of rows that a CUDA graph would not follow."""
    gpt: GPT = sharpen(GPT(ModelConfig(layers=1, heads=2, width=32, context=8), 19))
    filled = gpt.new_cache()
    with torch.no_grad():
        gpt(torch.ones(2, 3, dtype=torch.int64), filled)
        cache = StaticCache(filled, [3, 3], 8)
        cache.cover(4)
        with pytest.raises(ValueError, match="one token at a time, not by 2"):
            gpt(torch.ones(2, 2, dtype=torch.int64), cache)
    for fixed in (cache, StaticBeamCache(4, 2, torch.device("cpu"))):
        with pytest.raises(TypeError, match="cannot change"):
            fixed.keep(torch.tensor([0]))
