"""Beam search compared with exhaustive search, with a search without cache or batch, and with greedy decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from generation.beam_search import Hypothesis, beam_search
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder

Sharpen = Callable[[Any], Any]
BOS, EOS = 2, 3


@pytest.fixture
def model(config: ModelConfig, sharpen: Sharpen) -> EncoderDecoder:
    """Return a translator with a vocabulary of 6 tokens, two of them special."""
    return sharpen(EncoderDecoder(replace(config, vocab_multiple=4), 11, 6))


def log_probabilities(model: EncoderDecoder, source: Tensor, written: list[int], banned: set[int]) -> list[float]:
    """Return the log-probabilities of the next token from a full forward pass without the banned tokens."""
    with torch.no_grad():
        logits = model(source, torch.tensor([[BOS, *written]]))[0, -1].double()
    logits[list(banned)] = float("-inf")
    return logits.log_softmax(-1).tolist()


def every_translation(
    model: EncoderDecoder, source: Tensor, max_length: int, alpha: float, banned: set[int]
) -> list[Hypothesis]:
    """Return all outputs of at most max_length tokens, best first."""
    result = []

    def extend(written: list[int], total: float) -> None:
        for token, log_probability in enumerate(log_probabilities(model, source, written, banned)):
            length, summed = len(written) + 1, total + log_probability
            if token in banned:
                continue
            if token == EOS:
                result.append(Hypothesis(written, summed / length**alpha, summed))
            elif length == max_length:
                result.append(Hypothesis([*written, token], summed / length**alpha, summed))
            else:
                extend([*written, token], summed)

    extend([], 0.0)
    return sorted(result, key=lambda h: h.score, reverse=True)


def plain_beam_search(
    model: EncoderDecoder, source: Tensor, beam_size: int, max_length: int, alpha: float, banned: set[int]
) -> list[Hypothesis]:
    """Search one sentence by the documented algorithm with Python lists and full forward passes."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    ended = []
    for length in range(1, max_length + 1):
        candidates = [
            (total + log_probability, [*written, token])
            for total, written in beams
            for token, log_probability in enumerate(log_probabilities(model, source, written, banned))
            if token not in banned
        ]
        candidates.sort(key=lambda candidate: candidate[0], reverse=True)
        ended += [
            Hypothesis(written[:-1], total / length**alpha, total)
            for total, written in candidates[:beam_size]
            if written[-1] == EOS
        ]
        beams = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam_size]
        if len(ended) >= beam_size:
            break
        if length == max_length:
            ended += [Hypothesis(written, total / length**alpha, total) for total, written in beams]
    return sorted(ended, key=lambda h: h.score, reverse=True)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Assert the same tokens in the same order, and the same scores up to rounding."""
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in expected], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.6])
def test_a_beam_wide_enough_finds_the_best_of_all(model: EncoderDecoder, alpha: float) -> None:
    """Guards against lost hypotheses, wrong lengths in the score, and wrong log-probabilities."""
    source = torch.randint(4, 11, (2, 5))
    result = beam_search(
        model,
        source,
        bos_id=BOS,
        eos_id=EOS,
        beam_size=85,
        max_length=3,
        length_penalty=alpha,
        n_best=10,
        banned_ids={BOS},
    )
    for row in range(2):
        expected = every_translation(model, source[row : row + 1], 3, alpha, {BOS})
        assert len(expected) == 85  # 1 + 4 + 16 that end, 64 that are cut off
        assert_same(result[row], expected[:10])


@pytest.mark.slow
@pytest.mark.usefixtures("poisoned_memory")
@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_a_narrow_beam_follows_the_documented_algorithm(model: EncoderDecoder, beam_size: int) -> None:
    """Guards against cache rows of the wrong parent, sources of sentences that leave the batch, and padding."""
    source = torch.randint(4, 11, (7, 6))
    lengths = [6, 2, 1, 5, 6, 3, 4]
    limits = torch.tensor([9, 4, 9, 1, 6, 9, 9])
    mask = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
    result = beam_search(
        model,
        source,
        mask,
        bos_id=BOS,
        eos_id=EOS,
        beam_size=beam_size,
        max_length=limits,
        n_best=beam_size,
        banned_ids={0, BOS},
    )
    for row, length in enumerate(lengths):
        expected = plain_beam_search(model, source[row : row + 1, :length], beam_size, int(limits[row]), 1.0, {0, BOS})
        assert_same(result[row], expected[:beam_size])


def test_a_translation_does_not_depend_on_its_batch(model: EncoderDecoder) -> None:
    """Guards against effects of sentences that finish earlier, and of padding for longer ones."""
    source = torch.randint(4, 11, (5, 6))
    lengths = [6, 1, 3, 5, 2]
    mask = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
    options = {"bos_id": BOS, "eos_id": EOS, "beam_size": 3, "max_length": 8, "n_best": 3}
    together = beam_search(model, source, mask, **options)
    for row, length in enumerate(lengths):
        (alone,) = beam_search(model, source[row : row + 1, :length], **options)
        assert_same(together[row], alone)


def test_a_higher_length_penalty_prefers_longer_translations(model: EncoderDecoder) -> None:
    """Guards against the wrong sign of the exponent."""
    source = torch.randint(4, 11, (20, 5))
    lengths = []
    for alpha in (0.0, 2.0):
        result = beam_search(model, source, bos_id=BOS, eos_id=EOS, beam_size=6, max_length=8, length_penalty=alpha)
        lengths.append(sum(len(best.tokens) for (best,) in result))
    assert lengths[0] < lengths[1]


def test_banned_and_padded_ids_are_never_written(model: EncoderDecoder) -> None:
    """Guards against padding tokens (the vocabulary of 6 is padded to 8) and banned tokens (0 and bos)."""
    result = beam_search(
        model,
        torch.randint(4, 11, (8, 5)),
        bos_id=BOS,
        eos_id=EOS,
        beam_size=4,
        max_length=8,
        n_best=4,
        banned_ids=[0, BOS],
    )
    assert {token for row in result for h in row for token in h.tokens} <= {1, 4, 5}


def test_impossible_requests_are_all_named(sharpen: Sharpen) -> None:
    """Guards one message with all problems, before any work."""
    config = ModelConfig(layers=1, heads=2, width=32, context=8, position="learned")
    model = EncoderDecoder(config, 11, 6)
    with pytest.raises(ValueError, match=r"model\.eval\(\).*n_best must be.*\(2\), not 3.*max_length \(9\).*context=8"):
        beam_search(model, torch.ones(1, 4, dtype=torch.int64), bos_id=2, eos_id=3, beam_size=2, n_best=3, max_length=9)
