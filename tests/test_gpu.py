"""What only a GPU can show: `pytest -m gpu`."""

import pytest
import torch

from model.attention import attention, attention_backend, reference_attention
from model.config import ModelConfig
from model.gpt import GPT
from training.config import OptimConfig
from training.hardware import choose_hardware
from training.loss import summed_loss
from training.optimizers import Optimizer
from training.weights import Weights

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_fused_attention_agrees_with_the_reference(causal: bool, masked: bool) -> None:
    """Guards: a kernel chosen on GPU that computes something else, forwards or backwards."""
    torch.manual_seed(0)
    tensors = [torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    mask = (torch.arange(128, device="cuda") < torch.tensor([[128], [70]], device="cuda")) if masked else None
    fused = attention(*tensors, causal=causal, key_mask=mask)
    gradients = torch.autograd.grad(fused.float().square().sum(), tensors)
    exact, _ = reference_attention(*tensors, causal=causal, key_mask=mask)
    expected = torch.autograd.grad(exact.square().sum(), tensors)
    torch.testing.assert_close(fused.float(), exact, atol=2e-2, rtol=2e-2)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient.float(), other.float(), atol=1e-1, rtol=5e-2)


def test_training_attention_is_fused_in_bf16() -> None:
    """Guards: a shape or mask that silently sends training to the slow path."""
    query = torch.empty(1, 6, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    assert "math" not in attention_backend(query, query, query, causal=True)


def test_a_small_model_learns_in_the_format_that_the_hardware_likes() -> None:
    """Guards: bf16 weights, masters and the fused optimiser not working together on a GPU."""
    hardware = choose_hardware("cuda", "auto", None)
    model = GPT(ModelConfig(layers=2, heads=2, width=64, context=32), 50).to(hardware.device)
    weights = Weights(model, hardware.dtype, 0.0)
    optimizer = Optimizer(OptimConfig(kind="adamw", lr=1e-2), weights)
    tokens = torch.randint(0, 50, (4, 33), device="cuda")
    losses = []
    for _ in range(50):
        loss = summed_loss(model(tokens[:, :-1]), tokens[:, 1:]) / tokens[:, 1:].numel()
        loss.backward()
        weights.collect_gradients()
        optimizer.step(1.0)
        weights.publish()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
