"""Tests that need a GPU: attention kernels, loss and a short training run. Run them with `pytest -m gpu`."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from configs.errors import UserError
from model.attention import attention
from model.config import ModelConfig
from model.gpt import GPT
from tests.gpu.device import DEVICE, marks, needs_cuda
from training.config import OptimConfig, TrainConfig
from training.hardware.device import choose_hardware
from training.hardware.gpu_attention import attention_backend, check_attention, describe_attention, training_kernels
from training.loss import projected_loss
from training.optimizer.update import Optimizer
from training.optimizer.weights_gradients_ema import Weights

pytestmark = marks

KERNELS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@needs_cuda
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["causal", "full", "masked"])
@pytest.mark.parametrize("width", [64, 128])
def test_fused_attention_agrees_with_the_definition_in_float64(kernel: str, kind: str, width: int) -> None:
    """Guards against a kernel with wrong outputs or gradients, or with errors beyond the rounding of bf16."""
    if kernel == "flash" and kind == "masked":
        pytest.skip("flash takes no mask")
    if kernel != "efficient" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("needs compute capability 8.0")
    torch.manual_seed(0)
    tensors = [torch.randn(2, 4, 256, width, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    mask = torch.arange(256, device="cuda") < torch.tensor([[256], [140]], device="cuda") if kind == "masked" else None
    with sdpa_kernel(KERNELS[kernel]):
        fused = attention(*tensors, causal=kind == "causal", key_mask=mask)
    weight = torch.randn_like(fused)
    gradients = torch.autograd.grad(fused, tensors, weight)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    scores = exact[0] @ exact[1].transpose(-1, -2) / width**0.5
    if kind == "causal":
        scores = scores.masked_fill(torch.ones(256, 256, dtype=torch.bool, device="cuda").triu(1), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    wanted = scores.softmax(-1) @ exact[2]
    assert relative_error(fused, wanted) < 1e-2
    for result, other in zip(gradients, torch.autograd.grad(wanted, exact, weight.double()), strict=True):
        assert relative_error(result, other) < 1e-2


def relative_error(found: Tensor, exact: Tensor) -> float:
    """Return the norm of the error relative to the norm of the exact value."""
    return float((found.double() - exact).norm() / exact.norm())


@needs_cuda
def test_the_loss_agrees_with_torchs_own_and_keeps_no_float32_logits() -> None:
    """Guards against a chunk of logits that is skipped, and 6 GB of logits in memory at once where 2 GB are enough."""
    torch.manual_seed(0)
    tokens, vocabulary = 32_768, 50_257
    features = torch.randn(32, 1024, 64, device="cuda", dtype=torch.bfloat16).requires_grad_()
    weight = (torch.randn(50_304, 64, device="cuda", dtype=torch.bfloat16) * 0.3).requires_grad_()
    targets = torch.randint(vocabulary, (32, 1024), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    loss = projected_loss(features, weight, targets, vocabulary=vocabulary)
    loss.backward()
    assert torch.cuda.max_memory_allocated() - before < tokens * vocabulary * 2
    with torch.no_grad():
        rows = features[:2].detach() @ weight[:vocabulary].t()
        some = projected_loss(features[:2], weight, targets[:2], vocabulary=vocabulary)
        torch.testing.assert_close(
            some, F.cross_entropy(rows.flatten(0, 1).float(), targets[:2].flatten(), reduction="sum"), rtol=1e-3, atol=0
        )
    assert weight.grad is not None
    assert not weight.grad[vocabulary:].any()


def settings(**model: object) -> TrainConfig:
    return TrainConfig(model=ModelConfig(layers=2, heads=2, width=128, context=256, **model))  # type: ignore[arg-type]


@needs_cuda
@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_the_log_names_a_fused_kernel_that_the_profiler_saw(task: str) -> None:
    """Guards against a log line that reports the kernel that torch promises instead of the kernel that ran."""
    config, hardware = settings(), choose_hardware("cuda", "bf16", None)
    config.task = task
    state = torch.cuda.get_rng_state()
    described = describe_attention(config, hardware)
    assert "recorded by the profiler" in described
    assert any(family in described for family in ("flash", "fmha", "sdpa")), described
    assert "softmax" not in described
    assert torch.equal(torch.cuda.get_rng_state(), state), "the next dropout would be another after a resume"


@needs_cuda
def test_the_order_of_kernels_is_kept_while_training() -> None:
    """Guards against our kernel order being replaced by torch's default at the first call."""
    config = settings()
    config.trainer.deterministic = True
    device = torch.device("cuda")
    query = torch.empty(1, 6, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    with training_kernels(config, device)():
        assert "flash" in attention_backend(query, query, query, causal=True)
        assert "efficient" in attention_backend(query, query, query, key_mask=torch.ones(1, 256, device="cuda").bool())


@needs_cuda
@pytest.mark.parametrize(
    ("precision", "task", "width", "refused"),
    [
        ("float32", "gpt", 36, True),
        ("bf16", "translate", 36, True),
        ("bf16", "gpt", 36, False),  # padded by torch
        ("float32", "translate", 64, False),
        ("bf16", "translate", 64, False),
    ],
)
def test_a_model_that_no_fused_kernel_takes_is_refused(precision: str, task: str, width: int, refused: bool) -> None:
    """Guards against a run that is ten times slower than necessary without notice, and a rule that differs from
    torch's."""
    config, hardware = (
        TrainConfig(task=task, model=ModelConfig(heads=2, width=width)),
        choose_hardware("cuda", precision, None),
    )
    if not refused:
        check_attention(config, hardware)
        return
    with pytest.raises(UserError, match=r"model\.heads: heads of width 18 .* trainer\.slow_attention=true"):
        check_attention(config, hardware)
    config.trainer.slow_attention = True
    check_attention(config, hardware)
    assert "recorded by the profiler" in describe_attention(config, hardware)


def test_a_small_model_learns_in_the_format_that_the_hardware_likes() -> None:
    """Guards against a conflict between bf16 weights, master weights and the fused optimiser on a GPU."""
    hardware = choose_hardware(str(DEVICE), "auto", None)
    model = GPT(ModelConfig(layers=2, heads=2, width=64, context=32), 50).to(hardware.device)
    weights = Weights(model, hardware.dtype, 0.0)
    optimizer = Optimizer(OptimConfig(kind="adamw", lr=1e-2), weights)
    tokens = torch.randint(0, 50, (4, 33), device=DEVICE)
    losses = []
    for _ in range(50):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
        weights.add(weights.gradients_of(loss))
        optimizer.step(1.0, optimizer.gradient_norm())
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
