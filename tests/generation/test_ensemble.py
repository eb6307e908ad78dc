"""Ensembles compared with the average of their members' probabilities, computed by full forward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.ensemble import GPTEnsemble, TranslatorEnsemble
from generation.fast_decoding import prepare
from generation.sampling import generate
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.loss import token_losses

Sharpen = Callable[[Any], Any]
VOCABULARY, BOS, EOS = 11, 2, 3
SHAPES = (ModelConfig(layers=2, heads=2, width=32, context=16), ModelConfig(layers=1, heads=4, width=48, context=24))
"""Members of different width, depth and context."""


def gpts(sharpen: Sharpen) -> list[GPT]:
    return [sharpen(GPT(shape, VOCABULARY)) for shape in SHAPES]


def translators(sharpen: Sharpen) -> list[EncoderDecoder]:
    return [sharpen(EncoderDecoder(shape, VOCABULARY, VOCABULARY)) for shape in SHAPES]


def averaged(members: Sequence[nn.Module], *inputs: Tensor) -> Tensor:
    """Return the logarithm of the mean probabilities of the members, by the definition."""
    with torch.no_grad():
        return torch.stack([member(*inputs).double().softmax(-1) for member in members]).mean(0).log()


def test_an_ensemble_averages_probabilities(sharpen: Sharpen) -> None:
    """Guards against an average of logits or log-probabilities, and features of one member given to another."""
    members, tokens = gpts(sharpen), torch.randint(VOCABULARY, (3, 12))
    ensemble = GPTEnsemble(members).eval()
    assert ensemble.config.context == 16
    with torch.no_grad():
        result = ensemble(tokens)
    expected = averaged(members, tokens)
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)
    targets = torch.randint(VOCABULARY, (3, 12))
    losses = token_losses(ensemble, (tokens,), targets)
    torch.testing.assert_close(
        losses.double(), -expected.gather(-1, targets.unsqueeze(-1))[..., 0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("prepared", [False, True], ids=["plain", "prepared"])
def test_sampling_from_an_ensemble_equals_sampling_without_a_cache(sharpen: Sharpen, prepared: bool) -> None:
    """Guards the caches of the members: prompts of different lengths, texts that end, a context that is shifted."""
    members = gpts(sharpen)
    model = GPTEnsemble(members).eval()
    prompts = [[EOS, 5, 6], [EOS], [EOS, 7, 8, 9, 10]]
    steps = generate(
        prepare(model, "float32") if prepared else model,
        prompts,
        SamplingConfig(temperature=0, max_tokens=20),
        stop_ids={EOS},
        banned_ids=[0, 1, 2],
    )
    result = list(map(list, prompts))
    for tokens in steps:
        for text, token in zip(result, tokens, strict=True):
            text.extend([] if token is None else [token])
    for prompt, text in zip(prompts, result, strict=True):
        window = list(prompt)
        for token in text[len(prompt) :]:
            expected = averaged(members, torch.tensor([window]))[0, -1]
            expected[[0, 1, 2]] = float("-inf")
            assert int(expected.argmax()) == token
            window = [*(window[-8:] if len(window) == 16 else window), token]
    assert max(map(len, result)) > 16


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_beam_search_with_an_ensemble_ranks_by_the_mean_probability(sharpen: Sharpen, beam_size: int) -> None:
    """Guards the caches of the members during a beam search, in which hypotheses change places and sources leave."""
    members = translators(sharpen)
    ensemble = TranslatorEnsemble(members).eval()
    source = torch.randint(4, VOCABULARY, (9, 6))
    mask = torch.arange(6) < torch.tensor([6, 3, 4, 5, 6, 2, 6, 6, 1]).unsqueeze(1)
    settings: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "max_length": 10, "beam_size": beam_size}
    for row, (best, *_) in enumerate(beam_search(ensemble, source, mask, **settings)):
        written = torch.tensor([[BOS, *best.tokens]])
        each = averaged(members, source[row : row + 1], written, mask[row : row + 1])[0]
        ended = [*best.tokens, EOS][: 10 if len(best.tokens) == 10 else None]
        total = sum(float(each[place, token]) for place, token in enumerate(ended))
        assert best.log_probability == pytest.approx(total, abs=1e-3)
        if beam_size == 1:
            assert [int(each[place].argmax()) for place in range(len(ended))] == ended
    same = TranslatorEnsemble([members[0], members[0]]).eval()
    assert [[h.tokens for h in result] for result in beam_search(same, source, mask, **settings)] == [
        [h.tokens for h in result] for result in beam_search(members[0], source, mask, **settings)
    ]
