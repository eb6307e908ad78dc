"""Every fast form matches its definition in values and gradients: eager, compiled and without gradients."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import model
from model.attention import attention
from model.embedding import RotaryPositions, rotate
from model.layers import rms_norm

DTYPES = [pytest.param(torch.float32, id="float32"), pytest.param(torch.bfloat16, id="bf16")]
TOLERANCE = {torch.float32: {"rtol": 1e-5, "atol": 1e-5}, torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2}}
ROTATION = RotaryPositions(16, 8)

SMALL: dict[str, tuple[Callable[..., Tensor], Callable[[], list[Tensor]], list[Any]]] = {
    "rms_norm": (rms_norm, lambda: [torch.randn(6, 32), torch.randn(32)], [1e-6]),
    "rms_norm of a slice": (rms_norm, lambda: [torch.randn(2, 5, 6, 32)[:, :, :4], torch.randn(32)], [1e-6]),
    "rms_norm near zero": (rms_norm, lambda: [torch.randn(7, 32) * 1e-4, torch.randn(32)], [1e-6]),
    "rotate": (rotate, lambda: [torch.randn(2, 5, 3, 8)], [ROTATION(4, 5)]),
    "rotate, a start for each row": (rotate, lambda: [torch.randn(2, 5, 3, 8)], [ROTATION(torch.tensor([4, 9]), 5)]),
    "rotate a slice": (rotate, lambda: [torch.randn(2, 5, 4, 8)[:, :, :3]], [ROTATION(0, 5)]),
}
"""Function, arguments with gradients, and arguments without gradients."""

RANDOM = {"dropout"}
"""Functions compared by distribution, in `tests/model/test_layers.py`."""

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
    """Compare a function in `dtype` with its definition in float32, on the same inputs."""
    rounded = [tensor.to(dtype) for tensor in tensors]
    exact = [tensor.float().detach().requires_grad_() for tensor in rounded]
    expected = inspect.unwrap(function)(*exact, *others, **settings)
    direction = torch.randn_like(expected).to(dtype)
    wanted = torch.autograd.grad(expected, exact, direction.float())

    torch.compiler.reset()  # all definitions share their decorator's limit of recompilations
    fast = torch.compile(function, backend="eager", fullgraph=True, dynamic=False) if compiled else function
    leaves = [tensor.detach().requires_grad_() for tensor in rounded]
    output = fast(*leaves, *others, **settings)
    result = torch.autograd.grad(output, leaves, direction)
    with torch.no_grad():
        without_gradients = fast(*rounded, *others, **settings)
    for mine, reference in zip((output, without_gradients, *result), (expected, expected, *wanted), strict=True):
        assert mine.dtype == dtype
        size = max(1.0, float(reference.detach().abs().max()) / 4)  # scale of the rounding error
        torch.testing.assert_close(mine.float() / size, reference / size, **TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("case", SMALL)
def test_a_fast_form_is_its_definition(case: str, compiled: bool, dtype: torch.dtype) -> None:
    """Guards against wrong hand-written gradients, with which a model would still train, only worse."""
    function, tensors, others = SMALL[case]
    agree(function, tensors(), *others, dtype=dtype, compiled=compiled)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "kind", "pad", "kv_heads"), ATTENTION)
def test_fast_attention_is_the_definition(shape: str, kind: str, pad: str, kv_heads: int, dtype: torch.dtype) -> None:
    """Guards against a kernel that interprets the flag or the mask differently."""
    queries, keys = SHAPES[shape]
    lengths = ((queries, 4), (keys, kv_heads), (keys, kv_heads))
    tensors = [torch.randn(3, length, heads, 8).transpose(1, 2) for length, heads in lengths]  # the modules' layout
    mask = torch.arange(keys) < torch.tensor([[keys], [keys // 2], [1]]) if pad == "padded" else None
    compiled = shape == "self" and kv_heads == 2
    agree(attention, tensors, dtype=dtype, compiled=compiled, causal=kind == "causal", key_mask=mask)


@pytest.mark.parametrize("rows", [1, 20])
@torch.no_grad()
def test_many_heads_of_few_queries_are_the_definition(rows: int) -> None:
    """Guards against errors in the products of a decoding step, which are used above a certain number of heads."""
    query, key, value = (torch.randn(rows, heads, length, 8) for heads, length in ((4, 1), (2, 9), (2, 9)))
    expected = inspect.unwrap(attention)(query, key, value, causal=True)
    torch.testing.assert_close(attention(query, key, value, causal=True), expected, rtol=1e-5, atol=1e-5)


def test_every_definition_with_a_fast_form_is_compared() -> None:
    """Guards against a fast form that is not compared with its definition."""
    compared = {function.__name__ for function, _, _ in SMALL.values()} | {"attention"} | RANDOM
    result = set()
    for path in Path(model.__path__[0]).glob("*.py"):
        module = importlib.import_module(f"model.{path.stem}")
        result |= {
            name
            for name, member in vars(module).items()
            if inspect.isfunction(member)
            and member.__module__ == module.__name__
            and hasattr(member, "__wrapped__")
            and "accelerated_by" in member.__code__.co_qualname
        }
    assert result == compared
