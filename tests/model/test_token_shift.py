"""The vector of the token before each token."""

from __future__ import annotations

import torch

from model.config import ModelConfig
from model.embedding import TokenShift
from model.gpt import GPT
from training.config import TrainConfig, task_problems


def test_each_token_gets_the_one_before_it_times_the_gain() -> None:
    """Guards against a shift in the other direction, which would reveal the token to predict, and across rows."""
    shift, x = TokenShift(3), torch.randn(2, 4, 3)
    with torch.no_grad():
        shift.gain.copy_(torch.tensor([0.5, -1.0, 2.0]))
    expected = x.clone()
    for row in range(2):
        for t in range(1, 4):
            expected[row, t] += x[row, t - 1] * torch.tensor([0.5, -1.0, 2.0])
    torch.testing.assert_close(shift(x), expected)
    starts = torch.tensor([[True, False, True, False], [False, False, False, True]])
    alone = expected.where(~starts.unsqueeze(-1), x)
    torch.testing.assert_close(shift(x, starts), alone)


def test_a_document_begins_without_the_end_of_the_one_before() -> None:
    """Guards documents that are read as if alone; without masks a token reads on across the border."""
    first, second = torch.tensor([[5, 6, 2, 7, 8]]), torch.tensor([[5, 9, 2, 7, 8]])
    for masked in (True, False):
        config = ModelConfig(layers=1, heads=1, width=8, context=8, token_shift=True, mask_documents=masked)
        gpt = GPT(config, 19, eos_id=2).eval()
        same = torch.equal(gpt(first)[:, 2:], gpt(second)[:, 2:])
        assert same == masked


def test_the_gain_is_trained_from_its_initial_value() -> None:
    """Guards against a gain that initialisation overwrites, or that gets no gradient."""
    gpt = GPT(ModelConfig(layers=1, heads=1, width=8, context=8, token_shift=True), 19)
    assert gpt.token_shift is not None
    assert gpt.token_shift.gain.tolist() == [0.5] * 8
    gpt(torch.tensor([[3, 4, 5]])).sum().backward()
    gradient = gpt.token_shift.gain.grad
    assert gradient is not None
    assert gradient.abs().min() > 0


def test_only_language_models_have_it() -> None:
    """Guards against a setting that a translation model ignores."""
    config = TrainConfig(task="translate")
    config.model.token_shift = True
    assert any(problem.startswith("model.token_shift: ") for problem in task_problems(config))
