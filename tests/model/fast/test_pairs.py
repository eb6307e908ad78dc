"""Every fast form computes its definition: values and gradients, eager, compiled and without gradients."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import model
from model.attention import attention
from model.blocks import DecoderBlock
from model.cache import KVCache
from model.config import ModelConfig
from model.fast.decoder_block import DecodingBlock
from model.fast.decoding import DecodingRMSNorm
from model.fast.packed_linear import PackedFloat32Linear, PackedLinear, packs, packs_float32
from model.layers import RMSNorm, rms_norm, squared_relu
from model.positions import RotaryPositions, rotate

DTYPES = [pytest.param(torch.float32, id="float32"), pytest.param(torch.bfloat16, id="bf16")]
TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}, torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2}}
ROTATION = RotaryPositions(16, 8)

SMALL: dict[str, tuple[Callable[..., Tensor], Callable[[], list[Tensor]], list[Any]]] = {
    "rms_norm": (rms_norm, lambda: [torch.randn(6, 32), torch.randn(32)], [1e-6]),
    "rms_norm of a slice": (rms_norm, lambda: [torch.randn(2, 5, 6, 32)[:, :, :4], torch.randn(32)], [1e-6]),
    "rms_norm near zero": (rms_norm, lambda: [torch.randn(7, 32) * 1e-4, torch.randn(32)], [1e-6]),
    "squared_relu": (squared_relu, lambda: [torch.randn(5, 40)], []),
    "rotate": (rotate, lambda: [torch.randn(2, 5, 3, 8)], [ROTATION(4, 5)]),
    "rotate, a start for each row": (rotate, lambda: [torch.randn(2, 5, 3, 8)], [ROTATION(torch.tensor([4, 9]), 5)]),
    "rotate a slice": (rotate, lambda: [torch.randn(2, 5, 4, 8)[:, :, :3]], [ROTATION(0, 5)]),
}
"""Function, the arguments that have gradients, and those that have none."""

RANDOM = {"dropout"}
"""Compared by distribution: `tests/model/test_layers.py`."""
OTHER_DEVICES = {"document_mask"}
"""Its other form is for GPUs: `tests/model/fast/test_document_mask.py`, `tests/gpu/test_gpu_attention.py`."""

SHAPES = {"self": (7, 7), "cross": (5, 9), "cached": (1, 8), "chunk": (3, 8)}
ATTENTION = [
    pytest.param(*case, id="-".join(map(str, case)))
    for case in itertools.product(SHAPES, ["plain", "causal"], ["unpadded", "padded"], [4, 2, 1])
    if case[:2] != ("cross", "causal")
]


def agree(
    function: Callable[..., Tensor],
    tensors: list[Tensor],
    *others: Any,
    dtype: torch.dtype,
    compiled: bool,
    **settings: Any,
) -> None:
    """Compare function in `dtype` with its definition in float32, of the same numbers."""
    rounded = [tensor.to(dtype) for tensor in tensors]
    exact = [tensor.float().detach().requires_grad_() for tensor in rounded]
    expected = inspect.unwrap(function)(*exact, *others, **settings)
    direction = torch.randn_like(expected).to(dtype)
    wanted = torch.autograd.grad(expected, exact, direction.float())

    torch.compiler.reset()  # definitions share the code of their decorator, and so its limit of compiled forms
    fast = torch.compile(function, backend="eager", fullgraph=True, dynamic=False) if compiled else function
    leaves = [tensor.detach().requires_grad_() for tensor in rounded]
    output = fast(*leaves, *others, **settings)
    found = torch.autograd.grad(output, leaves, direction)
    with torch.no_grad():
        without_gradients = fast(*rounded, *others, **settings)
    for mine, reference in zip((output, without_gradients, *found), (expected, expected, *wanted), strict=True):
        assert mine.dtype == dtype
        size = max(1.0, float(reference.detach().abs().max()) / 4)  # of a sum's terms: what its rounding goes by
        torch.testing.assert_close(mine.float() / size, reference / size, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", SMALL)
def test_a_fast_form_is_its_definition(case: str, compiled: bool, dtype: torch.dtype) -> None:
    """Guards gradients written by hand: wrong, they would still train, only badly."""
    function, tensors, others = SMALL[case]
    agree(function, tensors(), *others, dtype=dtype, compiled=compiled)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "kind", "pad", "kv_heads"), ATTENTION)
def test_fast_attention_is_the_definition(shape: str, kind: str, pad: str, kv_heads: int, dtype: torch.dtype) -> None:
    """Guards: a kernel that reads the flag or the mask otherwise quietly trains a wrong model."""
    queries, keys = SHAPES[shape]
    lengths = ((queries, 4), (keys, kv_heads), (keys, kv_heads))
    tensors = [torch.randn(3, length, heads, 8).transpose(1, 2) for length, heads in lengths]  # as the modules do
    mask = torch.arange(keys) < torch.tensor([[keys], [keys // 2], [1]]) if pad == "padded" else None
    compiled = shape == "self" and kv_heads == 2
    agree(attention, tensors, dtype=dtype, compiled=compiled, causal=kind == "causal", key_mask=mask)


@pytest.mark.parametrize("rows", [1, 20])
@torch.no_grad()
def test_many_heads_of_few_queries_are_the_definition(rows: int) -> None:
    """Guards the products of a decoding step, which take over from a number of heads on."""
    query, key, value = (torch.randn(rows, heads, length, 8) for heads, length in ((4, 1), (2, 9), (2, 9)))
    expected = inspect.unwrap(attention)(query, key, value, causal=True)
    torch.testing.assert_close(attention(query, key, value, causal=True), expected, rtol=1e-5, atol=1e-5)


def test_every_definition_with_a_fast_form_is_compared() -> None:
    """Guards: a form that is added and never held against its definition."""
    compared = {function.__name__ for function, _, _ in SMALL.values()} | {"attention"} | RANDOM | OTHER_DEVICES
    found = set()
    for path in Path(model.__path__[0]).glob("*.py"):
        module = importlib.import_module(f"model.{path.stem}")
        found |= {
            name
            for name, member in vars(module).items()
            if inspect.isfunction(member)
            and member.__module__ == module.__name__
            and hasattr(member, "__wrapped__")
            and "accelerated_by" in member.__code__.co_qualname
        }
    assert found == compared


def bf16_linear() -> tuple[nn.Module, nn.Module]:
    plain = nn.Linear(32, 24).bfloat16()
    if not packs(plain.weight):
        pytest.skip("oneDNN has no bfloat16 here")
    return plain, PackedLinear(plain)


def float32_linear() -> tuple[nn.Module, nn.Module]:
    plain = nn.Linear(32, 24)
    if not packs_float32(plain.weight, 10):
        pytest.skip("torch was built without MKL")
    return plain, PackedFloat32Linear(plain, 10)


def norm() -> tuple[nn.Module, nn.Module]:
    plain = RMSNorm(32)
    nn.init.normal_(plain.weight)
    return plain, DecodingRMSNorm(plain)


LAYERS = {"PackedLinear": bf16_linear, "PackedFloat32Linear": float32_linear, "DecodingRMSNorm": norm}
"""Pairs of a layer and its form for decoding. Those that round are held against their error: `test_decoding.py`."""


@pytest.mark.parametrize("kind", LAYERS)
@torch.no_grad()
def test_a_layer_for_decoding_is_the_plain_one(kind: str) -> None:
    """Guards layouts and biases; of the norm the place of epsilon, which rows near zero show."""
    plain, fast = LAYERS[kind]()
    x = torch.randn(2, 5, 32) * torch.tensor([0.0, 1e-4, 1e-3, 1.0, 30.0]).unsqueeze(1)
    dtype = next(plain.parameters()).dtype
    torch.testing.assert_close(fast(x.to(dtype)), plain(x.to(dtype)), **TOLERANCE[dtype])


@pytest.mark.parametrize("rows", [1, 20])
@torch.no_grad()
def test_a_block_for_decoding_is_the_plain_one(config: ModelConfig, rows: int) -> None:
    """Guards: a second text of the block that leaves out what the first one does, with a cache and without."""
    block = DecoderBlock(config, 0).eval()
    fast, x = DecodingBlock(block), torch.randn(rows, 6, config.width)
    rotary = RotaryPositions(16, config.head_width) if config.position == "rotary" else None
    results = []
    for form in (block, fast):
        cache, outputs = KVCache(6), [form(x, rotary(0, 6) if rotary else None)]
        for first, last in ((0, 3), (3, 4), (4, 6)):
            rotation = rotary(first, last - first) if rotary else None
            outputs.append(form(x[:, first:last], rotation, cache))
            cache.advance(last - first)
        results.append(torch.cat(outputs, dim=1))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
