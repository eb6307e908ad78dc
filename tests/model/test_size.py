"""Parameter and operation counts, compared with torch's own counter, which counts plain products but no fused CPU
attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from model.attention import reference_attention
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.size import count_matrix_weights, count_parameters, flops_per_token, training_flops


@contextmanager
def plain_products(model: nn.Module) -> Iterator[None]:
    """Compute attention with plain products, because torch's counter does not count the fused CPU kernel."""

    def attend(
        query: Tensor, key: Tensor, value: Tensor, *, causal: bool, key_mask: Tensor | None, dropout: float
    ) -> Tensor:
        return reference_attention(query, key, value, causal=causal, key_mask=key_mask)[0]

    modules = [module for module in model.modules() if hasattr(module, "attend")]
    assert modules
    for module in modules:
        module.attend = attend
    yield
    for module in modules:
        del module.attend


def test_gpt2_has_its_published_size() -> None:
    """Guards against a GPT-2 of another size than the published one: 124M parameters, 0.855 GFLOP per token at 1024
    tokens."""
    gpt2 = ModelConfig(
        layers=12,
        heads=12,
        width=768,
        context=1024,
        norm="layer",
        position="learned",
        activation="gelu",
        qk_norm=False,
        bias=True,
    )
    with torch.device("meta"):
        gpt = GPT(gpt2, 50257)
    assert count_parameters(gpt) == 124_439_808
    assert count_matrix_weights(gpt) == 124_439_808 - 1024 * 768 - 12 * (9 + 4) * 768 - 2 * 768
    assert flops_per_token(gpt, 1024) == pytest.approx(0.855e9, rel=2e-3)


def test_gpt_operations_are_those_that_torch_counts(config: ModelConfig) -> None:
    """Guards against a factor of two or a missing projection, which would make the reported utilisation wrong."""
    gpt = GPT(config, 19).eval()
    with plain_products(gpt), FlopCounterMode(display=False) as counter:
        gpt(torch.zeros(1, 12, dtype=torch.int64))
    assert 3 * counter.get_total_flops() == training_flops(gpt, 12)
    assert flops_per_token(gpt, 12) == training_flops(gpt, 12) / 12


def test_translation_operations_are_those_that_torch_counts(config: ModelConfig) -> None:
    """Guards against source and target tokens that are charged for the wrong weights."""
    config = ModelConfig(**{**vars(config), "encoder_layers": 3})
    model = EncoderDecoder(config, 19, 23).eval()
    with plain_products(model), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 9, dtype=torch.int64), torch.zeros(1, 12, dtype=torch.int64))
    assert 3 * counter.get_total_flops() == training_flops(model, 12, 9)
    lengths = np.array([12, 3]), np.array([9, 4])
    both = training_flops(model, 12, 9) + training_flops(model, 3, 4)
    assert flops_per_token(model, *lengths) == both / (12 + 9 + 3 + 4)


def test_shared_tables_count_once() -> None:
    """Guards against a three-way tied table that is counted three times."""
    config = ModelConfig(layers=1, heads=2, width=32, context=8)
    tied = EncoderDecoder(config, 100, 100, shared=True)
    untied = EncoderDecoder(ModelConfig(**{**vars(config), "tie_embeddings": False}), 100, 100)
    assert count_parameters(untied) - count_parameters(tied) == 2 * 100 * 32
    assert count_matrix_weights(untied) == count_matrix_weights(tied)
