"""The attention function: every kernel computes the definition."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.attention import attention, reference_attention
from model.fast_kernels import ungrouped
from training.hardware.gpu_attention import attention_backend

SHAPES = {"self": (7, 7), "cross": (5, 9), "cached": (1, 8), "chunk": (3, 8)}
CASES = [
    pytest.param(*case, id="-".join(map(str, case)))
    for case in itertools.product(SHAPES, ["plain", "causal"], ["unpadded", "padded"], [4, 2, 1])
    if case[:2] != ("cross", "causal")
]
DTYPES = [pytest.param(torch.float32, id="fp32"), pytest.param(torch.bfloat16, id="bf16")]


def inputs(shape: str, kv_heads: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values in the modules' memory layout: transposed, thus not contiguous."""
    queries, keys = SHAPES[shape]
    query = torch.randn(3, queries, 4, 8).to(dtype).transpose(1, 2)
    key, value = (torch.randn(3, keys, kv_heads, 8).to(dtype).transpose(1, 2) for _ in range(2))
    return query, key, value


def padding(keys: int) -> Tensor:
    """Return a mask of right padding of different lengths; the first key is never padding, so that every query has a
    key."""
    return torch.arange(keys) < torch.tensor([[keys], [keys // 2], [1]])


def by_loops(query: Tensor, key: Tensor, value: Tensor, causal: bool, key_mask: Tensor | None) -> Tensor:
    """Compute the definition one query at a time in float64, sharing no code with the model."""
    batch, heads, queries, width = query.shape
    keys = key.shape[2]
    result = torch.zeros(query.shape, dtype=torch.float64)
    for b, h, t in itertools.product(range(batch), range(heads), range(queries)):
        kv = h * key.shape[1] // heads
        last = keys - queries + t if causal else keys - 1
        seen = [s for s in range(last + 1) if key_mask is None or key_mask[b, s]]
        scores = [float(query[b, h, t].double() @ key[b, kv, s].double()) / math.sqrt(width) for s in seen]
        shares = [math.exp(score - max(scores)) for score in scores]
        for s, share in zip(seen, shares, strict=True):
            result[b, h, t] += share / sum(shares) * value[b, kv, s].double()
    return result


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "kind", "pad", "kv_heads"), CASES)
def test_the_reference_is_the_definition(shape: str, kind: str, pad: str, kv_heads: int) -> None:
    """Guards against errors in the reference itself: alignment of cached queries, the key head of each query head, the
    scale."""
    query, key, value = inputs(shape, kv_heads, torch.float32)
    mask = padding(key.shape[2]) if pad == "padded" else None
    output, weights = reference_attention(query, key, value, causal=kind == "causal", key_mask=mask)
    expected = by_loops(query, key, value, kind == "causal", mask)
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def test_long_bf16_training_leaves_the_explicit_kernel() -> None:
    """Guards against memory quadratic in the length: beyond 512 keys the fused kernel must replace the explicit
    products."""
    query = torch.randn(1, 1, 513, 8, dtype=torch.bfloat16, requires_grad=True)
    assert "scaled_dot_product" in attention_backend(query, query, query, causal=True)
    expected, _ = reference_attention(query, query, query, causal=True)
    torch.testing.assert_close(attention(query, query, query, causal=True).float(), expected, rtol=3e-2, atol=3e-2)


def test_the_log_names_the_kernel_that_runs() -> None:
    """Guards against a log line with a kernel that does not run: the line must depend on dtype, gradients and
    dropout."""
    query = torch.randn(2, 4, 16, 8)
    assert attention_backend(query, query, query, causal=True) == "scaled_dot_product_attention, flash attention"
    half = query.bfloat16().requires_grad_()
    assert attention_backend(half, half, half, causal=True) == "explicit bfloat16 products"
    assert "explicit" in attention_backend(query, query, query, dropout=0.1)
    with torch.no_grad():
        assert "flash" in attention_backend(half, half, half, causal=True)


def test_dropped_weights_leave_the_mean_as_it_was() -> None:
    """Guards against errors of the CPU's own attention dropout, which must drop weights and rescale the others."""
    query, key = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 16, 8)
    value = torch.randn(1, 2, 16, 8)
    exact = attention(query, key, value)
    draws = torch.stack([attention(query, key, value, dropout=0.25) for _ in range(3000)])
    assert not torch.allclose(draws[0], draws[1])
    error = draws.mean(0) - exact
    assert error.abs().max() < 6 * (draws.std(0) / 3000**0.5).max()


def test_more_causal_queries_than_keys_are_refused() -> None:
    """Guards against NaN from the softmax of the first queries, which would have no visible key."""
    query, key = torch.randn(1, 1, 5, 8), torch.randn(1, 1, 4, 8)
    with pytest.raises(ValueError, match="5 causal queries"):
        attention(query, key, key, causal=True)


@pytest.mark.parametrize("kv_heads", [2, 1])
@pytest.mark.parametrize("kind", ["causal", "padded", "hypotheses", "everything"])
def test_grouped_heads_spread_out_compute_the_same(kind: str, kv_heads: int) -> None:
    """Guards against groups in another order than the heads, and a mask applied to the wrong query, on a path that no
    CPU run uses."""
    query, key, value = inputs("self", kv_heads, torch.float32)
    mask = padding(7) if kind == "padded" else None
    if kind == "hypotheses":
        mask = torch.rand(3, 7, 7) < 0.5
        mask[:, :, 0] = True
    visible = None if mask is None else mask[:, None, None] if mask.dim() == 2 else mask[:, None]
    causal = kind == "causal"
    expected, _ = reference_attention(query, key, value, causal=causal, key_mask=mask)
    q, k, v, seen = ungrouped(query, key, value, visible, causal)
    assert q.shape[1] == k.shape[1] == v.shape[1]
    mixed = F.scaled_dot_product_attention(q, k, v, seen, is_causal=causal).reshape(query.shape)
    torch.testing.assert_close(mixed, expected, rtol=1e-5, atol=1e-5)


def test_code_for_any_length_gives_the_kernel_a_plain_flag() -> None:
    """Guards against a translator's decoder that cannot be compiled on a GPU, because torch does not accept a symbolic
    `is_causal`."""

    def attend(x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return attention(heads, heads, heads, causal=True)

    compiled = torch.compile(attend, backend="eager", fullgraph=True, dynamic=True)
    for rows, length in ((2, 6), (3, 9), (5, 4)):
        x = torch.randn(rows, length, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), attend(x))


@pytest.mark.parametrize("kv_heads", [1, 4])
def test_compiled_for_any_shape_it_is_the_same(kv_heads: int) -> None:
    """Guards against a symbolic kernel flag if all sizes are symbolic, with which a float32 translator did not
    compile."""
    query, key, value = (torch.randn(3, heads, length, 8) for heads, length in ((4, 5), (kv_heads, 7), (kv_heads, 7)))
    mask = torch.ones(3, 7, dtype=torch.bool)
    compiled = torch.compile(attention, dynamic=True, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(query, key, value, key_mask=mask), attention(query, key, value, key_mask=mask))
