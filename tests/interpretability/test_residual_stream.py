"""The parts of the residual stream, and what they contribute to the logits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from interpretability.residual_stream import Model, record_residual_stream
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.model.conftest import FLAVOURS

SHAPE = ModelConfig(layers=2, heads=4, width=32, context=24)
VOCABULARY = 37
OPTIONS = [
    ("rms", False, False, "relu2", "rotary"),
    ("rms", True, True, "swiglu", "sinusoidal"),
    ("layer", False, True, "relu2", "sinusoidal"),
    ("layer", True, False, "swiglu", "sinusoidal"),
    ("layer", True, True, "relu2", "rotary"),
    ("rms", False, True, "swiglu", "rotary"),
]
"""Each pair of values occurs."""


def made(task: str, config: ModelConfig) -> tuple[Model, tuple[Tensor, ...]]:
    """Return a model with random weights, biases and gains, and inputs of two rows."""
    torch.manual_seed(3)
    model: Model = GPT(config, VOCABULARY) if task == "gpt" else EncoderDecoder(config, VOCABULARY, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    target, source = torch.randint(VOCABULARY, (2, 11)), torch.randint(VOCABULARY, (2, 7))
    return model.eval(), (target,) if task == "gpt" else (source, target)


@pytest.mark.parametrize("task", ["gpt", "translate"])
@pytest.mark.parametrize(("norm", "bias", "tied", "activation", "position"), OPTIONS)
@torch.no_grad()
def test_the_contributions_of_all_parts_add_up_to_the_logit(
    task: str, norm: str, bias: bool, tied: bool, activation: str, position: str
) -> None:
    """Guards direct logit attribution at every position: a part that is missing or counted twice."""
    config = replace(
        SHAPE, norm=norm, bias=bias, tie_embeddings=tied, activation=activation, position=position, vocab_multiple=8
    )
    model, inputs = made(task, replace(config, kv_heads=2, token_shift=task == "gpt" and tied))
    with record_residual_stream(model) as stream:
        logits = model(*inputs)  # [B, T, V]
    tokens = torch.stack([logits.argmax(-1), logits.argmin(-1), torch.full_like(inputs[-1], 5)], dim=-1)
    contributions = stream.attribution(tokens)
    assert len(contributions) == len(stream.parts())
    expected = logits.gather(-1, tokens) - logits.mean(-1, keepdim=True)
    assert (sum(stream.added()) - stream.end).abs().max() < 1e-4
    assert ((contributions.sum(dim=0) - expected).abs() / expected.abs().clamp(min=1)).max() < 1e-4


@pytest.mark.parametrize("task", ["gpt", "translate"])
@pytest.mark.parametrize("flavour", ["post_norm", "scaled"])
@torch.no_grad()
def test_contributions_add_up_in_imported_architectures(task: str, flavour: str) -> None:
    """Guards attribution through the norms of post-norm branches, with an output bias."""
    model, inputs = made(task, replace(FLAVOURS[flavour], context=24, vocab_multiple=8))
    with record_residual_stream(model) as stream:
        logits = model(*inputs)  # [B, T, V]
    tokens = torch.stack([logits.argmax(-1), logits.argmin(-1), torch.full_like(inputs[-1], 5)], dim=-1)
    contributions = stream.attribution(tokens)
    assert len(contributions) == len(stream.parts())
    torch.testing.assert_close(stream.logits, logits)
    expected = logits.gather(-1, tokens) - logits.mean(-1, keepdim=True)
    assert ((contributions.sum(dim=0) - expected).abs() / expected.abs().clamp(min=1)).max() < 1e-4
    assert (contributions.abs().amax(dim=(1, 2, 3)) > 0).all()
    torch.testing.assert_close(stream.lens(1), logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("task", ["gpt", "translate"])
@torch.no_grad()
def test_the_lens_of_the_last_layer_is_the_model(task: str) -> None:
    """Guards the logit lens against another norm or a skipped layer."""
    model, inputs = made(task, replace(SHAPE, norm="layer", bias=True))
    with record_residual_stream(model) as stream:
        logits = model(*inputs)
    assert torch.allclose(stream.lens(1), logits, atol=1e-4)
    assert not torch.allclose(stream.lens(0), logits, atol=1e-1)


@pytest.mark.parametrize("norm", ["rms", "layer"])
@torch.no_grad()
def test_the_lens_reads_models_in_bfloat16(norm: str) -> None:
    """Guards recordings of models in half precision: torch's LayerNorm rejects weights of another format than its
    input."""
    model, inputs = made("gpt", replace(SHAPE, norm=norm, bias=True))
    model.bfloat16()
    with record_residual_stream(model) as stream:
        logits = model(*inputs).float()
    assert ((stream.lens(1) - logits).abs() < 0.02 * logits.abs().max()).all()


@torch.no_grad()
def test_a_head_contributes_what_is_lost_without_it_in_the_last_layer() -> None:
    """Guards the order of heads and layers: without MLPs after it, removing a head changes the stream by its part."""
    model, inputs = made("gpt", SHAPE)
    assert isinstance(model, GPT)
    with record_residual_stream(model) as stream:
        model(*inputs)
    part = [(p.kind, p.layer, p.head) for p in stream.parts()].index(("decoder", 1, 2))
    added = list(stream.added())[part]
    last = model.blocks[1].attention.output.weight
    before = stream.end - stream.mlps[1]
    last[:, 16:24] = 0
    with record_residual_stream(model) as without:
        model(*inputs)
    assert torch.allclose(before - (without.end - without.mlps[1]), added, atol=1e-5)


def test_hooks_are_removed_after_an_error() -> None:
    """Guards training after a recording: no hook may stay, also not after an error."""
    model, _ = made("gpt", SHAPE)
    with pytest.raises(ZeroDivisionError), record_residual_stream(model):
        1 / 0  # noqa: B018
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
