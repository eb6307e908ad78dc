"""The training loss compared with torch's."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from data.batches.batch import IGNORED
from model.config import ModelConfig
from model.gpt import GPT
from training.loss import batch_loss, loss_and_gradient, projected_loss, token_losses


def summed_loss(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return torch's loss for logits [B, T, V]."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_projected_loss_and_its_gradients_are_those_of_cross_entropy(
    smoothing: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the hand-written gradient, against loss on padding, and against chunks that lose rows (the last one is
    shorter)."""
    monkeypatch.setattr("training.loss._TOKENS", 16)
    monkeypatch.setattr("training.loss._LOGITS", 16 * 50)
    features, weight = torch.randn(5, 9, 12, requires_grad=True), torch.randn(50, 12, requires_grad=True)
    targets = torch.randint(50, (5, 9))
    targets[1, 4:] = IGNORED
    targets[3] = IGNORED
    kernel = torch.compile(loss_and_gradient, backend="eager") if compiled else None
    result = projected_loss(features, weight, targets, smoothing, kernel)
    wanted = summed_loss(features @ weight.t(), targets, smoothing)
    torch.testing.assert_close(result, wanted)
    for mine, theirs in zip(
        torch.autograd.grad(result / 31, (features, weight)),
        torch.autograd.grad(wanted / 31, (features, weight)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("compiled", [False, True])
def test_padding_of_the_vocabulary_changes_nothing(smoothing: float, compiled: bool) -> None:
    """Guards against padding rows that receive probability, smoothing or gradients."""
    features, weight = torch.randn(5, 9, 12, requires_grad=True), torch.randn(64, 12, requires_grad=True)
    targets = torch.randint(50, (5, 9))
    targets[1, 4:] = IGNORED
    kernel = torch.compile(loss_and_gradient, backend="eager") if compiled else None
    result = projected_loss(features, weight, targets, smoothing, kernel, vocabulary=50)
    wanted = summed_loss(features @ weight[:50].t(), targets, smoothing)
    torch.testing.assert_close(result, wanted)
    for mine, theirs in zip(
        torch.autograd.grad(result, (features, weight)), torch.autograd.grad(wanted, (features, weight)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_logits_of_any_size_give_a_finite_loss() -> None:
    """Guards against exponentials of logits that overflow before the maximum is subtracted."""
    features = torch.tensor([[[300.0, -300.0]]], requires_grad=True)
    loss = projected_loss(features, torch.eye(2), torch.tensor([[1]]))
    assert loss.item() == pytest.approx(600)
    (gradient,) = torch.autograd.grad(loss, features)
    assert gradient.tolist() == [[[1.0, -1.0]]]


def test_the_bias_of_the_logits_is_part_of_the_loss() -> None:
    """Guards against a model trained without the bias of its output, and against wrong gradients."""
    config = ModelConfig(layers=1, heads=2, width=16, context=9, vocab_multiple=32, output_bias=True)
    model = GPT(config, 30)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    tokens, targets = torch.randint(30, (3, 9)), torch.randint(30, (3, 9))
    targets[1, 5:] = IGNORED
    result, wanted = batch_loss(model, (tokens,), targets, 0.1), summed_loss(model(tokens), targets, 0.1)
    torch.testing.assert_close(result, wanted)
    parameters = dict(model.named_parameters())
    mine, theirs = (torch.autograd.grad(loss, list(parameters.values())) for loss in (result, wanted))
    for name, one, other in zip(parameters, mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_bfloat16_loss_is_computed_in_float32() -> None:
    """Guards against a sum over thousands of tokens with 8 bits of mantissa."""
    features, weight = torch.randn(4, 500, 16).bfloat16(), torch.randn(40, 16).bfloat16()
    targets = torch.randint(40, (4, 500))
    result = projected_loss(features, weight, targets)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, summed_loss(features @ weight.t(), targets), rtol=1e-5, atol=0)


def test_the_loss_of_each_token_is_that_of_its_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against chunks that lose or shift tokens, a padded vocabulary that receives probability, and counted
    padding."""
    monkeypatch.setattr("training.loss._TOKENS", 4)
    monkeypatch.setattr("training.loss._LOGITS", 4 * 70)
    model = GPT(ModelConfig(layers=1, heads=2, width=16, context=9, vocab_multiple=64), 70).eval()
    assert len(model.head.weight) > 70
    tokens, targets = torch.randint(70, (3, 9)), torch.randint(70, (3, 9))
    targets[1, 5:] = IGNORED
    result = token_losses(model, (tokens,), targets)
    wanted = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none")
    torch.testing.assert_close(result, wanted.view(3, 9))
    assert not result[1, 5:].any()
    assert not result.requires_grad
