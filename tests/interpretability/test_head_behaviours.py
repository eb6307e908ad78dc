"""What heads do on repeated random tokens, on models whose heads are built by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attention_maps.record.example import Example
from interpretability.head_behaviours import LENGTH, ROWS, head_behaviours, repeated_tokens
from interpretability.recorder import record
from model.config import ModelConfig
from model.gpt import GPT

TOKENS = 40
START, DRAWN = 2, range(4, TOKENS)
CONTEXT = 2 * LENGTH + 1


def random_model(**shape: object) -> GPT:
    torch.manual_seed(5)
    settings: dict = {"layers": 2, "heads": 4, "width": 64, "context": CONTEXT} | shape
    return GPT(ModelConfig(**settings), 400).eval()


@torch.no_grad()
def induction_model() -> GPT:
    """Return the two heads of Elhage et al. 2021, built by hand in one-hot coordinates.

    The width holds, one after another, the token, its position, and a copy of the token before it. Layer 0: position t
    attends to position t-1 and copies its token. Layer 1: each token attends to the position whose previous token is
    the same, and writes that position's own token, as the output expects it.
    """
    size = TOKENS + CONTEXT + TOKENS + TOKENS  # token, position, previous token, next token
    token, place = slice(0, TOKENS), slice(TOKENS, TOKENS + CONTEXT)
    before, out = slice(TOKENS + CONTEXT, 2 * TOKENS + CONTEXT), slice(2 * TOKENS + CONTEXT, size)
    config = ModelConfig(
        layers=2, heads=1, width=size, context=CONTEXT, position="learned", qk_norm=False, tie_embeddings=False
    )
    model = GPT(config, TOKENS).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.zero_()
    model.embedding.tokens.weight[:, token] = torch.eye(TOKENS)
    positions = model.embedding.positions
    assert positions is not None
    (table,) = positions.parameters()
    table[:, place] = torch.eye(CONTEXT)
    strong = 40.0
    for layer, block in enumerate(model.blocks):
        weight = block.attention.query_key_value.weight  # [3 C, C]
        query, key, value = weight[:size], weight[size : 2 * size], weight[2 * size :]
        if layer == 0:
            shifted = torch.eye(CONTEXT).roll(-1, dims=0)  # the query of t is the key of t - 1
            query[place, place], key[place, place] = strong * shifted, torch.eye(CONTEXT)
            value[before, token] = torch.eye(TOKENS)
        else:
            query[token, token], key[token, before] = strong * torch.eye(TOKENS), torch.eye(TOKENS)
            value[out, token] = torch.eye(TOKENS)
        block.attention.output.weight.copy_(torch.eye(size))
    model.head.weight[:, out] = torch.eye(TOKENS)
    return model


def test_an_induction_model_built_by_hand_has_the_highest_scores() -> None:
    """Guards the offsets: each of the two heads scores at its own behaviour, and only there."""
    scores = {name: kinds["decoder"] for name, kinds in head_behaviours(induction_model(), START, DRAWN).items()}
    assert scores["repeat_previous"][0][0] >= 0.95
    assert scores["induction"][1][0] >= 0.95
    assert scores["copying"][1][0] >= 0.95
    assert max(scores["induction"][0][0], scores["repeat_previous"][1][0]) <= 0.05
    assert max(*scores["duplicate"][0], *scores["duplicate"][1]) <= 0.05
    assert abs(scores["copying"][0][0]) <= 0.05  # writes where the output does not read


def test_a_random_model_has_low_scores() -> None:
    """Guards against scores that every head gets: only the attention of 1 in 65 tokens, and no copying."""
    scores = head_behaviours(random_model(), START, DRAWN)
    assert max(score for kinds in scores.values() for heads in kinds["decoder"] for score in heads) <= 0.05
    assert min(score for heads in scores["copying"]["decoder"] for score in heads) >= -0.05


def test_a_head_that_suppresses_what_it_attends_to_has_a_negative_score() -> None:
    """Guards the sign of the copying score."""
    model = induction_model()
    with torch.no_grad():
        model.head.weight.neg_()
    assert head_behaviours(model, START, DRAWN)["copying"]["decoder"][1][0] <= -0.95


def test_the_tokens_are_repeated_once_and_never_special() -> None:
    """Guards the test sequence: the same at every step of a run, and each token once in each half."""
    tokens = repeated_tokens(random_model(), START, DRAWN)
    assert tokens is not None
    assert tokens.shape == (ROWS, CONTEXT)
    assert torch.equal(tokens[:, 1 : LENGTH + 1], tokens[:, LENGTH + 1 :])
    assert (tokens[:, 0] == START).all()
    assert set(tokens[:, 1:].flatten().tolist()) <= set(DRAWN)
    assert all(len(set(row)) == LENGTH for row in tokens[:, 1 : LENGTH + 1].tolist())
    again = repeated_tokens(random_model(), START, DRAWN)
    assert again is not None
    assert torch.equal(tokens, again)


@pytest.mark.parametrize(("context", "length"), [(64, 31), (12, 5), (8, None)])
def test_a_short_context_gets_a_shorter_sequence_or_none(context: int, length: int | None) -> None:
    """Guards small models: no sequence may be longer than the context."""
    model = random_model(context=context)
    tokens = repeated_tokens(model, START, DRAWN)
    assert (None if tokens is None else (tokens.shape[1] - 1) // 2) == length
    assert bool(head_behaviours(model, START, DRAWN)) == (length is not None)


@pytest.mark.parametrize(("norm", "bias"), [("rms", False), ("layer", True)])
def test_behaviours_are_the_same_beside_examples_and_change_nothing_in_them(norm: str, bias: bool) -> None:
    """Guards the pass that reads both: padding, and random tokens that become part of a sample."""
    model = random_model(norm=norm, bias=bias)
    texts = ([2, 7, 9, 11, 5], [2, 8, 8])
    examples = [Example(ids, list(map(str, ids)), ids[1:], list(map(str, ids[1:]))) for ids in texts]
    tokens = repeated_tokens(model, START, DRAWN)
    with_them = record(model, examples, {2}, 0, repeated=tokens)
    without = record(model, examples, {2}, 0)
    expected = head_behaviours(model, START, DRAWN)
    for name, scores in expected.items():
        np.testing.assert_allclose(with_them.measures[name]["decoder"], scores["decoder"], atol=2e-5)
        assert name not in without.measures
    assert with_them.loss == pytest.approx(without.loss, abs=1e-5)
    for sample, other in zip(with_them.samples, without.samples, strict=True):
        assert sample.reads == other.reads
        assert [[prediction.id for prediction in row] for row in sample.predictions] == [
            [prediction.id for prediction in row] for row in other.predictions
        ]
        np.testing.assert_allclose(sample.weights["decoder", 1], other.weights["decoder", 1], atol=1e-3)
        np.testing.assert_allclose(sample.attribution, other.attribution, atol=2e-2)


def test_behaviours_leave_mode_and_random_state() -> None:
    """Guards training: neither the mode nor the random state may change."""
    model = random_model(dropout=0.1).train()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    head_behaviours(model, START, DRAWN)
    assert model.training
    assert torch.equal(before, torch.get_rng_state())
