"""Recorded attention maps match the model's computation, and recording has no side effects."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from model.attention import attention
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import AttentionRecording, record_attention

Sharpen = Callable[[Any], Any]


@pytest.fixture
def translator(config: ModelConfig, sharpen: Sharpen) -> EncoderDecoder:
    """Return a translator with three encoder blocks and two decoder blocks."""
    config = ModelConfig(**{**vars(config), "encoder_layers": 3})
    return sharpen(EncoderDecoder(config, 19, 23))


def pair() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a padded source, a target, and the source mask."""
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    return torch.randint(19, (3, 9)), torch.randint(23, (3, 7)), mask


@torch.no_grad()
def test_every_map_of_a_translation_is_recorded(translator: EncoderDecoder) -> None:
    """Guards against missing layers, exchanged axes, and weight on padding or on future tokens."""
    source, target, mask = pair()
    with record_attention(translator) as recording:
        translator(source, target, mask)
    shapes = {key: tuple(weights.shape[-2:]) for key, weights in recording.weights.items()}
    assert shapes == {
        **{("encoder", layer): (9, 9) for layer in range(3)},
        **{("decoder", layer): (7, 7) for layer in range(2)},
        **{("cross", layer): (7, 9) for layer in range(2)},
    }
    assert recording.outputs.keys() == recording.weights.keys()
    for (kind, _), weights in recording.weights.items():
        assert weights.dtype == torch.float32
        assert weights.shape[:2] == (3, translator.config.heads)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), rtol=0, atol=1e-5)
        if kind == "decoder":
            assert torch.equal(weights, weights.tril()), "the upper triangle must be exactly 0"
        else:
            assert torch.equal(weights, weights * mask[:, None, None, :]), "padding must have exactly 0"


@torch.no_grad()
def test_weights_times_values_is_the_fused_output(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against plausible maps that are not the model's own attention, e.g. without rotation or with another
    head's keys."""
    gpt: GPT = sharpen(GPT(config, 19))
    calls: list[tuple[Any, ...]] = []
    for block in gpt.blocks:  # record the fused function's inputs and outputs

        def noting(*inputs: Any, **options: Any) -> torch.Tensor:
            output = attention(*inputs, **options)
            calls.append((*inputs, output))
            return output

        block.attention.attend = noting
    tokens = torch.randint(19, (3, 12))
    gpt(tokens)
    for block in gpt.blocks:
        del block.attention.attend
    with record_attention(gpt) as recording:
        gpt(tokens)
    for layer, (_, _, value, fused) in enumerate(calls):
        weights = recording.weights["decoder", layer]
        values = value.repeat_interleave(config.heads // value.shape[1], dim=1)
        torch.testing.assert_close(weights @ values, fused, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(recording.outputs["decoder", layer], fused, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_recording_does_not_change_the_output(translator: EncoderDecoder) -> None:
    """Guards against a recorded forward pass whose output differs, so that the maps belong to another function."""
    source, target, mask = pair()
    expected = translator(source, target, mask)
    with record_attention(translator):
        torch.testing.assert_close(translator(source, target, mask), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_maps_of_a_bf16_model_are_float32(config: ModelConfig, sharpen: Sharpen) -> None:
    """Guards against rows rounded to bfloat16, which do not sum to 1."""
    gpt = sharpen(GPT(config, 19)).bfloat16()
    with record_attention(gpt) as recording:
        assert gpt(torch.randint(19, (1, 12))).dtype == torch.bfloat16
    for weights in recording.weights.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), rtol=0, atol=1e-6)


def left_by_an_error(gpt: GPT, tokens: torch.Tensor) -> AttentionRecording:
    """Return a recording whose block ended with an exception."""
    try:
        with record_attention(gpt) as recording:
            gpt(tokens)
            gpt(tokens + 19)  # ids outside the vocabulary
    except IndexError:
        return recording
    raise AssertionError("ids beyond the vocabulary should have been refused")


@pytest.mark.slow
def test_nothing_is_recorded_or_kept_outside(config: ModelConfig) -> None:
    """Guards against weight matrices kept during normal training."""
    gpt = GPT(config, 19)
    before = {name: set(vars(module)) for name, module in gpt.named_modules()}
    tokens = torch.randint(19, (2, 12))
    recording = left_by_an_error(gpt, tokens)
    assert {name: set(vars(module)) for name, module in gpt.named_modules()} == before
    kept = [weakref.ref(weights) for weights in recording.weights.values()]
    assert kept
    recorded = dict(recording.weights)
    gpt(tokens).sum().backward()
    assert recording.weights.keys() == recorded.keys()
    assert all(recording.weights[key] is recorded[key] for key in recorded), "a forward outside must not be recorded"
    del recording, recorded
    gc.collect()
    assert all(reference() is None for reference in kept)


def test_training_runs_the_fused_function(config: ModelConfig) -> None:
    """Guards against overhead on the training path: the modules must call `attention` itself."""
    model = EncoderDecoder(config, 19, 23)
    functions = {module.attend for module in model.modules() if hasattr(module, "attend")}
    assert functions == {attention}


def test_recording_with_gradients_keeps_no_graph(config: ModelConfig) -> None:
    """Guards against maps that keep the autograd graph, and thus the whole forward pass, alive."""
    gpt = GPT(config, 19)
    with record_attention(gpt) as recording:
        gpt(torch.randint(19, (2, 12)))
    assert not any(weights.requires_grad for weights in recording.weights.values())
    assert not any(output.requires_grad for output in recording.outputs.values())
