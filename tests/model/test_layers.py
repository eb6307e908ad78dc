"""Norms, dropout, MLP and positions compared with their formulas."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
import torch.nn.functional as F

from model.config import ACTIVATIONS, ModelConfig
from model.embedding import RotaryPositions, SinusoidalPositions, rotate
from model.layers import Dropout, FeedForward, dropout, make_norm


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("form", ["definition", "eager", "compiled"])
def test_dropout_drops_and_scales_as_it_says(probability: float, dtype: torch.dtype, form: str) -> None:
    """Guards against a wrong rate or scale of dropout, and against correlated neighbours or calls: masks come from a
    pool or, compiled, from a hash."""
    ones = torch.ones(1001, 999, dtype=dtype)
    forms = {"definition": inspect.unwrap(dropout), "eager": dropout}
    draw = torch.compile(dropout, backend="eager") if form == "compiled" else forms[form]
    dropped = draw(ones, probability)
    kept = dropped != 0
    deviation = math.sqrt(probability * (1 - probability) / ones.numel())
    assert abs((1 - kept.double().mean()) - probability) < 5 * deviation
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / (1 - probability)).to(dtype).item()}
    assert abs(dropped.double().mean() - 1) < 0.004  # bfloat16 rounds the scale by up to 1/256
    centred = kept.flatten().double() - kept.double().mean()
    for lag in (1, 2, 7, 8, 64, 999, 1024):
        correlation = (centred[lag:] * centred[:-lag]).mean() / centred.square().mean()
        assert abs(correlation) < 5 / math.sqrt(ones.numel()), f"elements {lag} apart are dropped together"
    again = (draw(ones, probability) != 0).flatten().double()
    correlation = (centred * (again - again.mean())).mean() / centred.square().mean()
    assert abs(correlation) < 5 / math.sqrt(ones.numel()), "each call draws anew"


def test_the_gradient_uses_the_same_mask() -> None:
    """Guards against a second mask in the backward pass, which adds noise to the gradient."""
    x = torch.randn(50, 40, requires_grad=True)
    dropped = dropout(x, 0.3)
    (gradient,) = torch.autograd.grad(dropped, x, torch.ones_like(x))
    torch.testing.assert_close(gradient * x, dropped)
    assert set((gradient == 0).flatten().tolist()) == {True, False}


def test_dropout_is_the_identity_in_evaluation_and_at_zero() -> None:
    """Guards against noise in evaluation, and the cost of an extra pass at probability 0."""
    layer = Dropout(0.5)
    x = torch.randn(10, 10)
    assert not torch.equal(layer(x), x)
    assert layer.eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_dropout_follows_the_seed() -> None:
    """Guards against different masks in a resumed run, which restores torch's generator."""
    x = torch.randn(10, 10)
    torch.manual_seed(5)
    first = dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5), first)


def test_feed_forward_bends_as_named() -> None:
    """Guards against SiLU applied to the wrong half, ReLU that is not squared, and one form of GELU in place of the
    other."""
    x = 3 * torch.randn(3, 32)
    for name in ACTIVATIONS:
        layer = FeedForward(ModelConfig(width=32, heads=2, activation=name))
        hidden = x @ layer.expand.weight.T
        if name == "relu2":
            hidden = hidden.clamp(min=0) ** 2
        elif name == "gelu":
            hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
        elif name == "gelu_tanh":  # Hendrycks & Gimpel 2016, section 2
            hidden = hidden * 0.5 * (1 + torch.tanh((2 / math.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
        elif name == "relu":
            hidden = hidden.clamp(min=0)
        elif name == "silu":
            hidden = hidden * torch.sigmoid(hidden)
        else:
            gate, value = hidden[:, :96], hidden[:, 96:]  # 8/3 · 32 rounded up to 96
            hidden = gate * torch.sigmoid(gate) * value
        torch.testing.assert_close(layer(x), hidden @ layer.project.weight.T, rtol=1e-4, atol=1e-5)


def test_norms_use_the_configured_constant() -> None:
    """Guards against a norm that keeps its default epsilon."""
    x = 1e-3 * torch.randn(3, 32)
    for norm in ("rms", "layer"):
        config = ModelConfig(width=32, heads=2, norm=norm, norm_eps=1e-2)
        variance = x.square().mean(-1, keepdim=True) if norm == "rms" else x.var(-1, unbiased=False, keepdim=True)
        centred = x if norm == "rms" else x - x.mean(-1, keepdim=True)
        torch.testing.assert_close(make_norm(config)(x), centred / (variance + 1e-2).sqrt())


def test_sinusoids_are_the_published_ones() -> None:
    """Guards against sinusoids that differ from the paper: sine and cosine interleaved, wavelengths from 2π to 10000 ·
    2π."""
    vectors = SinusoidalPositions(50, 8)(0, 50)
    for position, pair in ((0, 0), (7, 1), (49, 3)):
        angle = position / 10000 ** (2 * pair / 8)
        assert vectors[position, 2 * pair] == pytest.approx(math.sin(angle), abs=1e-6)
        assert vectors[position, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_rotation_turns_each_pair_by_its_angle() -> None:
    """Guards against rotations that differ from 2 x 2 rotation matrices, with an offset for all rows or for each
    row."""
    rotary = RotaryPositions(16, 8)
    x = torch.randn(2, 5, 3, 8)
    turned = rotate(x, rotary(4, 5))
    for t, pair in ((0, 0), (3, 1), (4, 3)):
        angle = (4 + t) / 10000 ** (2 * pair / 8)
        matrix = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        part = [pair, pair + 4]
        torch.testing.assert_close(turned[:, t, :, part], x[:, t, :, part] @ matrix.T, rtol=1e-5, atol=1e-6)
    ragged = rotate(x, rotary(torch.tensor([4, 9]), 5))
    torch.testing.assert_close(ragged[0], turned[0])
    torch.testing.assert_close(ragged[1:], rotate(x[1:], rotary(9, 5)))


def test_scores_of_turned_vectors_depend_on_distance_alone() -> None:
    """Guards against attention scores that depend on absolute positions."""
    rotary = RotaryPositions(64, 8)
    query, key = torch.randn(2, 1, 1, 1, 8).unbind()
    near = [(rotate(query, rotary(p + 5, 1)) * rotate(key, rotary(p, 1))).sum() for p in (0, 3, 50)]
    assert near == pytest.approx([near[0].item()] * 3, abs=1e-4)
    assert (rotate(query, rotary(9, 1)) * rotate(key, rotary(0, 1))).sum() != pytest.approx(near[0].item(), abs=1e-3)


@pytest.mark.parametrize("kind", [RotaryPositions, SinusoidalPositions])
def test_position_tables_survive_conversions_exactly(kind: type[RotaryPositions | SinusoidalPositions]) -> None:
    """Guards against position tables that remain rounded after a conversion to bfloat16 and back, unlike those of a
    newly loaded model."""
    fresh, used = kind(16, 8), kind(16, 8).bfloat16().float()
    assert torch.equal(used.table, fresh.table)
    assert kind(16, 8).bfloat16().table.dtype == torch.float32
    assert not fresh.state_dict()


def test_layer_norm_has_a_bias_only_when_configured() -> None:
    """Guards against norms with a bias although model.bias=false covers linear layers and norms."""
    config = ModelConfig(norm="layer", bias=False)
    assert make_norm(config).bias is None
    x = torch.randn(3, 128)
    torch.testing.assert_close(make_norm(ModelConfig(norm="layer", bias=True))(x), F.layer_norm(x, (128,)))
