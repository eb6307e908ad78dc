"""Ablation and activation patching."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch

from interpretability.ablation import chosen_heads, record_head_outputs, replace_head_outputs
from model.attention import attention
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import record_attention
from tests.interpretability.test_circuits import randomised
from tests.model.conftest import FLAVOURS


@pytest.fixture(params=FLAVOURS)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    """Each configuration of `FLAVOURS`."""
    return FLAVOURS[request.param]


@pytest.fixture
def gpt(config: ModelConfig) -> GPT:
    """Return a GPT in evaluation mode whose outputs differ from token to token."""
    model = GPT(config, 19)
    randomised(model)
    return model


@torch.no_grad()
def test_zero_ablation_equals_attention_without_the_head(gpt: GPT) -> None:
    """Guards against columns of another head: the hook must equal attention whose output of that head is 0, exactly."""
    tokens = torch.randint(19, (2, 9))

    def without(*inputs: Any, **settings: Any) -> torch.Tensor:
        mixed = attention(*inputs, **settings).clone()
        mixed[:, 1] = 0
        return mixed

    gpt.blocks[1].attention.attend = without
    expected = gpt(tokens)
    del gpt.blocks[1].attention.attend
    whole = gpt(tokens)
    with replace_head_outputs(gpt, {("decoder", 1, 1): 0.0}):
        assert torch.equal(gpt(tokens), expected)
    assert torch.equal(gpt(tokens), whole)
    assert not torch.equal(expected, whole)


@torch.no_grad()
def test_removal_composes_with_a_recording(gpt: GPT) -> None:
    """Guards against a recording that switches the removal off, or the other way round, in either order."""
    tokens = torch.randint(19, (1, 9))
    removed = {("decoder", 0, 0): 0.0, ("decoder", 1, 1): 0.0}
    with replace_head_outputs(gpt, removed):
        expected = gpt(tokens)
    for order in (1, -1):
        with ExitStack() as stack:
            entered: dict[str, Any] = {}
            blocks = [("removal", replace_head_outputs(gpt, removed)), ("maps", record_attention(gpt))]
            for name, block in blocks[::order]:
                entered[name] = stack.enter_context(block)
            torch.testing.assert_close(gpt(tokens), expected, rtol=1e-5, atol=1e-5)
            assert entered["maps"].weights["decoder", 1].shape == (1, gpt.config.heads, 9, 9)


@torch.no_grad()
def test_a_head_patched_with_its_own_output_changes_nothing(gpt: GPT) -> None:
    """Guards against outputs of other positions or heads: only the own output leaves the logits as they are."""
    tokens, others = torch.randint(19, (1, 9)), torch.randint(19, (1, 9))
    with record_head_outputs(gpt) as outputs:
        expected = gpt(tokens)
    single = {place: output[0] for place, output in outputs.items()}
    with replace_head_outputs(gpt, single):
        assert torch.equal(gpt(tokens), expected)
    with record_head_outputs(gpt) as foreign:
        gpt(others)
    with replace_head_outputs(gpt, {("decoder", 0, 1): foreign["decoder", 0, 1][0]}):
        assert not torch.equal(gpt(tokens), expected)
    assert torch.equal(gpt(tokens), expected)


def test_layers_and_heads_are_found_in_a_translator(config: ModelConfig) -> None:
    """Guards against a head counted twice, a missing layer, and names that are silently ignored."""
    model = EncoderDecoder(config, 19, 23)
    named = [("cross", 0, None), ("cross", 0, 1), ("encoder", 1, 0)]
    assert chosen_heads(model, named) == [*(("cross", 0, head) for head in range(config.heads)), ("encoder", 1, 0)]
    for wrong in (("cross", 9, None), ("decoder", 0, 99), ("decoder", 0, -1), ("middle", 0, 0)):
        with pytest.raises(LookupError, match="no "):
            chosen_heads(model, [wrong])
