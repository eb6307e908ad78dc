"""Every model configuration trains, in every precision, eager and compiled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ACTIVATIONS, BLOCKS, NORMS, POSITIONS, ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.initialisation import residual_outputs
from tests.model.conftest import FLAVOURS as OTHERS

OURS = ("relu2", "gelu", "swiglu")

PRODUCT = [
    pytest.param(
        ModelConfig(
            layers=2,
            heads=4,
            width=32,
            context=16,
            norm=norm,
            position=position,
            activation=activation,
            kv_heads=2 if number % 2 else None,
            qk_norm=number % 3 > 0,
            cross_qk_norm=number % 3 > 1,
            bias=number % 4 > 1,
            tie_embeddings=number % 5 > 1,
            dropout=0.1,
            attention_dropout=0.1 * (number % 2),
            vocab_multiple=8,
        ),
        id=f"{norm}-{position}-{activation}",
    )
    for number, (norm, position, activation) in enumerate(itertools.product(NORMS, POSITIONS, OURS))
]
FLAVOURS = [
    *PRODUCT,
    *(pytest.param(replace(OTHERS[name], dropout=0.1), id=name) for name in ("post_norm", "scaled")),
    pytest.param(replace(OTHERS["post_norm"], activation="relu", position="learned"), id="post_norm-relu"),
]


CONFIDENCE = {"rotary": 0.3, "learned": 0.3, "sinusoidal": 1.4}
"""Allowed deviation of the initial loss from uniform predictions, in nats; tied tables of unit-size vectors start with
logits of unit size."""


def test_every_value_of_a_setting_is_trained() -> None:
    """Guards against a new activation, norm, kind of positions or block that no test trains."""
    configs = [case.values[0] for case in FLAVOURS]
    for key, values in {"activation": ACTIVATIONS, "norm": NORMS, "position": POSITIONS, "block": BLOCKS}.items():
        assert {getattr(config, key) for config in configs} == set(values)


def losses(model: nn.Module, steps: int, logits: Callable[[], Tensor], targets: Tensor) -> list[float]:
    """Return the loss before each AdamW step; every parameter must get a finite gradient each time."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    result = []
    for _ in range(steps):
        loss = F.cross_entropy(logits().float().flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, f"{name} has no gradient"
            assert parameter.grad.isfinite().all(), f"{name} has a gradient that is not finite"
            assert parameter.grad.any(), f"{name} has a gradient of zero everywhere"
        optimizer.step()
        result.append(loss.item())
    return result


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_flavour_of_gpt_learns(flavour: ModelConfig, dtype: torch.dtype) -> None:
    """Guards against parameters without a gradient, mismatched dtypes, and NaN from a masked row."""
    gpt = GPT(flavour, 19).to(dtype)
    tokens = torch.randint(19, (4, 13))
    result = losses(gpt, 4, lambda: gpt(tokens[:, :-1]), tokens[:, 1:])
    assert math.log(19) - 0.3 < result[0] < math.log(19) + CONFIDENCE[flavour.position], "a fresh model knows nothing"
    assert result[-1] < result[0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_flavour_of_translator_learns(flavour: ModelConfig, dtype: torch.dtype) -> None:
    """Guards against the same errors with a padded source."""
    model = EncoderDecoder(flavour, 19, 23).to(dtype)
    source, target = torch.randint(19, (4, 9)), torch.randint(23, (4, 8))
    mask = torch.arange(9) < torch.tensor([[9], [4], [1], [9]])
    result = losses(model, 4, lambda: model(source, target[:, :-1], mask), target[:, 1:])
    assert math.log(23) - 0.3 < result[0] < math.log(23) + CONFIDENCE[flavour.position], "a fresh model knows nothing"
    assert result[-1] < result[0]


def test_autocast_runs_every_flavour(config: ModelConfig) -> None:
    """Guards against mismatched dtypes of queries, keys, cache and positions under autocast."""
    gpt, model = GPT(config, 19), EncoderDecoder(config, 19, 23)
    tokens = torch.randint(19, (2, 12))
    exact = gpt(tokens), model(tokens, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        result = gpt(tokens), model(tokens, tokens)
        result[0].float().sum().backward()
        with torch.no_grad():
            cache = gpt.new_cache()
            pieces = torch.cat([gpt(tokens[:, :5], cache), gpt(tokens[:, 5:], cache)], dim=1)
    for mixed, float32 in zip((*result, pieces), (*exact, exact[0]), strict=True):
        torch.testing.assert_close(mixed.float(), float32, rtol=0.05, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(layers=1, heads=4, kv_heads=2, width=32, context=16, activation="swiglu", dropout=0.1),
        ModelConfig(layers=1, heads=4, width=32, context=16, norm="layer", position="learned", attention_dropout=0.1),
    ],
    ids=["modern", "classic"],
)
def test_both_models_compile_into_one_graph(config: ModelConfig) -> None:
    """Guards against a graph break per layer, which costs more than compilation gains."""
    gpt, model = GPT(config, 19), EncoderDecoder(config, 19, 23)
    tokens, mask = torch.randint(19, (2, 12)), torch.arange(12) < torch.tensor([[12], [5]])
    compiled = torch.compile(gpt.features, backend="aot_eager", fullgraph=True)
    compiled(tokens).sum().backward()  # training mode, with dropout
    gpt.eval()
    torch.testing.assert_close(compiled(tokens), gpt.features(tokens), rtol=1e-4, atol=1e-5)
    compiled = torch.compile(model.features, backend="aot_eager", fullgraph=True)
    compiled(tokens, tokens, mask).sum().backward()
    model.eval()
    torch.testing.assert_close(
        compiled(tokens, tokens, mask), model.features(tokens, tokens, mask), rtol=1e-4, atol=1e-5
    )


def test_residual_outputs_start_small_and_gains_at_one(config: ModelConfig) -> None:
    """Guards against unscaled residual outputs: the residual stream of a deep model would grow with depth at
    initialisation."""
    deep = ModelConfig(**{**vars(config), "layers": 8, "encoder_layers": 4})
    model = EncoderDecoder(deep, 19, 23)
    for blocks, branches in ((model.encoder, 8), (model.decoder, 24)):
        for layer in (layer for block in blocks for layer in residual_outputs(block)):
            expected = (layer.in_features * branches) ** -0.5
            assert layer.weight.std().item() == pytest.approx(expected, rel=0.1)
    query = model.decoder[0].cross_attention.query.weight
    assert query.std().item() == pytest.approx(32**-0.5, rel=0.1)
    assert all((p == (0 if name.endswith("bias") else 1)).all() for name, p in model.named_parameters() if p.dim() < 2)
    assert model.head.weight.std().item() == pytest.approx(32**-0.5 if deep.position == "sinusoidal" else 0.02, rel=0.1)
