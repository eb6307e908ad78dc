"""Decoding with a cache computes the same as a full forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.sampling import generate
from model.cache import BeamCache, KVCache
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

Sharpen = Callable[[Any], Any]
GREEDY = SamplingConfig(temperature=0.0, max_tokens=40)


@torch.no_grad()
def greedy_without_cache(model: GPT, prompt: list[int], new_tokens: int, stop: int | None = None) -> list[int]:
    """Return greedy tokens by the simplest method: a full forward pass over the window for each token."""
    window, written = prompt[-model.config.context :], []
    for _ in range(new_tokens):
        token = int(model(torch.tensor([window]))[0, -1].argmax())
        if token == stop:
            break
        written.append(token)
        if len(window) == model.config.context:
            window = window[-(model.config.context // 2) :]
        window = [*window, token]
    return written


def texts(steps: list[list[int | None]]) -> list[list[int]]:
    """Convert the steps that `generate` yields to one list of tokens per text."""
    return [[token for token in text if token is not None] for text in zip(*steps, strict=True)]


@torch.no_grad()
def test_logits_with_a_cache_are_those_of_a_whole_pass(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against positions off by one and keys cached before their rotation, also in chunks of several tokens."""
    gpt: GPT = sharpen(GPT(config, 19))
    tokens = torch.randint(19, (3, 16))
    cache = gpt.new_cache()
    pieces = [gpt(tokens[:, a:b], cache) for a, b in ((0, 5), (5, 6), (6, 10), (10, 11), (11, 16))]
    torch.testing.assert_close(torch.cat(pieces, dim=1), gpt(tokens), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_translation_logits_with_a_cache_are_those_of_a_whole_pass(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a source mask that is lost in later steps; the source is encoded only once."""
    model: EncoderDecoder = sharpen(EncoderDecoder(config, 19, 23))
    source, target = torch.randint(19, (3, 9)), torch.randint(23, (3, 8))
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    cache = model.new_cache()
    pieces = [model(source, target[:, a:b], mask, cache) for a, b in ((0, 3), (3, 4), (4, 8))]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(source, target, mask), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("poisoned_memory")
def test_texts_with_a_cache_are_those_without(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against errors with prompts of different lengths, one beyond the context, texts far beyond the context,
    and texts that end at different steps."""
    gpt: GPT = sharpen(GPT(config, 19))
    prompts = [torch.randint(19, (length,)).tolist() for length in (3, 1, 16, 7, 21)]
    alone = [greedy_without_cache(gpt, prompt, 40) for prompt in prompts]
    assert texts(list(generate(gpt, prompts, GREEDY))) == alone
    stop = alone[0][9]
    stopped = [greedy_without_cache(gpt, prompt, 40, stop) for prompt in prompts]
    assert len({len(text) for text in stopped}) > 1, "the texts should end at different times for this test to bite"
    assert texts(list(generate(gpt, prompts, GREEDY, stop_ids={stop}))) == stopped


@pytest.mark.slow
@pytest.mark.usefixtures("poisoned_memory")
def test_greedy_translation_with_a_cache_is_that_without(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against a beam search of size 1 that differs from the argmax of full passes for single sentences."""
    model: EncoderDecoder = sharpen(EncoderDecoder(config, 19, 23))
    source = torch.randint(4, 19, (6, 9))
    lengths = [9, 4, 1, 7, 2, 9]
    mask = torch.arange(9) < torch.tensor(lengths).unsqueeze(1)
    result = beam_search(model, source, mask, bos_id=2, eos_id=3, beam_size=1, max_length=12)
    for row, length in enumerate(lengths):
        written = [2]
        with torch.no_grad():
            while len(written) <= 12:
                token = int(model(source[row : row + 1, :length], torch.tensor([written]))[0, -1].argmax())
                if token == 3:
                    break
                written.append(token)
        assert [hypothesis.tokens for hypothesis in result[row]] == [written[1:]]


def test_a_full_cache_refuses_more() -> None:
    """Guards against writes past the end of the cache, which would broadcast or be lost."""
    gpt = GPT(ModelConfig(layers=1, heads=2, width=32, context=8), 19).eval()
    cache = gpt.new_cache(4)
    with torch.no_grad(), pytest.raises(ValueError, match="holds 4 tokens per row, but 5 are needed"):
        gpt(torch.zeros(1, 5, dtype=torch.int64), cache)


def filled_cache() -> KVCache:
    """Return a cache of one layer with three rows of 2 tokens; all values of row b are b + 1."""
    cache = KVCache(capacity=4)
    rows = torch.arange(1.0, 4.0).view(3, 1, 1, 1).expand(3, 2, 2, 8)
    cache.append(0, rows, -rows)
    cache.advance(2)
    return cache


def test_rows_can_be_repeated_reordered_and_left_out() -> None:
    """Guards against beams that read each other's past, which gives fluent but wrong translations."""
    cache = filled_cache()
    cache.keep(torch.tensor([2, 0, 0, 2]))
    new = torch.zeros(4, 2, 1, 8)
    keys, values, mask = cache.append(0, new, new)
    assert keys[:, 0, :, 0].tolist() == [[3, 3, 0], [1, 1, 0], [1, 1, 0], [3, 3, 0]]
    assert torch.equal(values, -keys)
    assert mask is None


def test_hypotheses_see_their_own_ancestors_only() -> None:
    """Guards against beams that attend to tokens outside their own hypothesis, which gives fluent but wrong
    translations."""
    cache = BeamCache(steps=3, beam_size=2)
    parents = [[[1, 1]], [[1, 0]]]
    for step, following in enumerate([*parents, None]):
        new = torch.tensor([10.0 * step + 1, 10.0 * step + 2]).view(1, 1, 2, 1)
        keys, _, mask = cache.append(0, new, new)
        assert cache.positions(2) == (step, 1)
        cache.advance(2)
        if following is not None:
            cache.follow(torch.tensor(following))
    assert mask is not None
    assert [keys[0, 0, mask[0, hypothesis], 0].tolist() for hypothesis in range(2)] == [[2, 12, 21], [2, 11, 22]]


def test_rows_of_different_lengths_grow_each_at_its_end() -> None:
    """Guards against stale content of an earlier, longer row that the mask does not hide."""
    cache = filled_cache()
    cache.set_lengths([2, 1, 2])
    new = torch.full((3, 2, 1, 8), 9.0)
    keys, _, mask = cache.append(0, new, new)
    assert mask is not None
    visible = [keys[row, 0, mask[row], 0].tolist() for row in range(3)]
    assert visible == [[1, 1, 9], [2, 9], [3, 3, 9]]
    with pytest.raises(ValueError, match="one token at a time"):
        cache.append(0, new.expand(3, 2, 2, 8), new.expand(3, 2, 2, 8))
