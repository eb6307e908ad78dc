"""Attention kernels on a GPU: which kernel runs, and whether it computes the definition. Run with `pytest -m gpu`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from model.attention import attention, reference_attention
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.masks import document_mask
from tests.gpu.device import DEVICE, marks, needs_cuda
from training.hardware.gpu_attention import attention_backend
from training.loss import batch_loss

pytestmark = marks

EOS = 3
FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
"""Kernels available on every GPU since Ampere. If only these are allowed and none fits, torch raises an error."""

KINDS = {
    "decoder": (96, 96, True, None),
    "encoder": (96, 96, False, None),
    "cross": (40, 96, False, None),
    "padded encoder": (96, 96, False, "padding"),
    "padded cross": (40, 96, False, "padding"),
    "padded cross, odd lengths": (37, 91, False, "padding"),
    "documents": (96, 96, True, "documents"),
    "documents, odd length": (91, 91, True, "documents"),
}
"""Number of queries, number of keys, whether causal, kind of mask."""


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def inputs(queries: int, keys: int, kv_heads: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    """Return queries, keys and values in the modules' memory layout: [B, T, H, D], transposed to [B, H, T, D]."""
    shapes = ((queries, 4), (keys, kv_heads), (keys, kv_heads))
    made = [torch.randn(3, length, heads, width, device=DEVICE, dtype=dtype) for length, heads in shapes]
    return [tensor.transpose(1, 2).detach().requires_grad_() for tensor in made]


def mask_of(kind: str | None, keys: int) -> Tensor | None:
    if kind == "padding":
        return torch.arange(keys, device=DEVICE) < torch.tensor([[keys], [keys // 2], [1]], device=DEVICE)
    if kind == "documents":
        return document_mask(torch.randint(12, (3, keys), device=DEVICE) == EOS)
    return None


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_is_fused_and_computes_the_definition(
    kind: str, kv_heads: int, width: int, dtype: torch.dtype
) -> None:
    """Guards against a mask, length, head grouping or dtype for which attention is unfused or wrong."""
    queries, keys, causal, masked = KINDS[kind]
    tensors = inputs(queries, keys, kv_heads, width, dtype)
    mask = mask_of(masked, keys)
    with sdpa_kernel(FUSED):
        name = attention_backend(*tensors, causal=causal, key_mask=mask)
        fused = attention(*tensors, causal=causal, key_mask=mask)
    assert "math" not in name
    assert ("flash" in name) == (mask is None and dtype == torch.bfloat16), name
    direction = torch.randn_like(fused)
    gradients = torch.autograd.grad(fused, tensors, direction)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = by_definition(*exact, causal=causal, key_mask=mask)
    references = torch.autograd.grad(expected, exact, direction.double())
    limit = 1e-2 if dtype == torch.bfloat16 else 1e-4
    for mine, true in zip((fused, *gradients), (expected, *references), strict=True):
        assert (mine.double() - true).norm() / true.norm() < limit


def by_definition(query: Tensor, key: Tensor, value: Tensor, causal: bool, key_mask: Tensor | None) -> Tensor:
    """Compute attention in float64; `reference_attention` computes in float32."""
    groups = query.shape[1] // key.shape[1]
    key, value = (side.repeat_interleave(groups, dim=1) for side in (key, value))
    visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    if causal:
        visible = visible.tril()
    if key_mask is not None:
        visible = visible & (key_mask[:, None, None] if key_mask.dim() == 2 else key_mask[:, None])
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.masked_fill(~visible, float("-inf")).softmax(dim=-1) @ value


@needs_cuda
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_cudnn_computes_the_definition_where_it_is_allowed(kind: str, kv_heads: int) -> None:
    """Guards against errors, under any of our masks, of the kernel that torch prefers on Hopper."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("torch prefers cuDNN on Hopper and Blackwell")
    queries, keys, causal, masked = KINDS[kind]
    tensors = inputs(queries, keys, kv_heads, 64, torch.bfloat16)
    mask = mask_of(masked, keys)
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        fused = attention(*tensors, causal=causal, key_mask=mask)
    expected, _ = reference_attention(*tensors, causal=causal, key_mask=mask)
    direction = torch.randn_like(fused)
    gradients = torch.autograd.grad(fused, tensors, direction)
    references = torch.autograd.grad(expected, tensors, direction.float())
    for mine, true in zip((fused, *gradients), (expected, *references), strict=True):
        assert (mine.float() - true.float()).norm() / true.float().norm() < 2e-2


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("padded", [False, True])
def test_a_translator_trains_on_fused_kernels_alone(padded: bool, kv_heads: int) -> None:
    """Guards against an unfused kernel in one of the three kinds of attention, in the memory layout of the real
    modules."""
    config = ModelConfig(layers=2, heads=4, kv_heads=kv_heads, width=256, context=64)
    model = EncoderDecoder(config, 60, 60, shared=True).to(DEVICE).bfloat16()
    source, target = (torch.randint(4, 60, (3, length), device=DEVICE) for length in (41, 29))
    lengths = torch.tensor([[41], [20], [3]], device=DEVICE)
    mask = torch.arange(41, device=DEVICE) < lengths if padded else None
    with sdpa_kernel(FUSED):
        loss = batch_loss(model, (source, target, mask), target)
        loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    if mask is not None:
        other = torch.where(mask, source, (source + 5) % 60)
        with torch.no_grad(), sdpa_kernel(FUSED):
            assert torch.equal(model(other, target, mask), model(source, target, mask))


def packed(length: int) -> tuple[Tensor, Tensor]:
    """Return windows with document boundaries inside and at the edges of blocks, one row without a boundary, and one
    row of many short documents."""
    tokens = torch.randint(4, 60, (4, length), device=DEVICE)
    tokens[0, [17, 128, 200]] = EOS
    tokens[1, length // 2] = EOS
    tokens[2, ::5] = EOS
    return tokens, torch.randint(60, (4, length), device=DEVICE)


@pytest.mark.parametrize(
    ("dtype", "head_width", "length", "kv_heads"),
    [
        pytest.param(torch.float32, 64, 256, None, id="float32"),
        pytest.param(torch.bfloat16, 64, 256, None, id="bf16"),
        pytest.param(torch.bfloat16, 128, 384, 1, id="wide-grouped"),
        pytest.param(torch.bfloat16, 64, 250, None, id="not-whole-blocks"),
    ],
)
def test_a_compiled_model_reads_documents_as_the_reference_does(
    dtype: torch.dtype, head_width: int, length: int, kv_heads: int | None
) -> None:
    """Guards against losses or gradients under the mask that differ in a model compiled as in training."""
    config = ModelConfig(2, heads=2, kv_heads=kv_heads, width=2 * head_width, context=length, mask_documents=True)
    model = GPT(config, 60, EOS).to(DEVICE).to(dtype)
    tokens, targets = packed(length)
    compiled = torch.compile(batch_loss, fullgraph=True, dynamic=False)
    gradients = {}
    for name, loss_of in (("plain", batch_loss), ("compiled", compiled)):
        model.zero_grad()
        loss = loss_of(model, (tokens,), targets)
        loss.backward()
        gradients[name] = [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
    limit = 1e-3 if dtype == torch.float32 else 5e-2
    for mine, true in zip(gradients["compiled"], gradients["plain"], strict=True):
        assert (mine.double() - true.double()).norm() / true.double().norm() < limit


@pytest.mark.parametrize("compiled", [False, True])
def test_on_a_gpu_documents_do_not_see_each_other(compiled: bool) -> None:
    """Guards against attention across a document boundary: the tokens of one document must not change a
    single bit of another document's output."""
    config = ModelConfig(layers=2, heads=2, width=128, context=256, mask_documents=True)
    model = GPT(config, 60, EOS).to(DEVICE).bfloat16().eval()
    features = torch.compile(model.features, fullgraph=True, dynamic=False) if compiled else model.features
    tokens, _ = packed(256)
    other = tokens.clone()
    other[0, :17] = (other[0, :17] + 7) % 50 + 4
    other[0, 200:] = EOS
    with torch.no_grad(), nullcontext() if compiled else sdpa_kernel(FUSED):
        before, after = features(tokens), features(other)
    assert torch.equal(before[0, 17:200], after[0, 17:200])
    assert not torch.equal(before[0, :17], after[0, :17])
