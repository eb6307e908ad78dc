"""Compute the cross-entropy, summed so that a step averages over its tokens however it is split into micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from data.batches.batch import IGNORED
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.hardware.chunks import loss_chunk, subtract_at

LossAndGradient = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]


@torch.no_grad()
def token_losses(model: GPT | EncoderDecoder, inputs: tuple[Tensor | None, ...], targets: Tensor) -> Tensor:
    """Return the cross-entropy of every token in nats, 0 where the target is IGNORED; for evaluation.

    inputs: `Batch.model_inputs`, targets [B, T] -> float32 [B, T]. As in training, the full logits are never stored.
    """
    features = model.features(*inputs).flatten(0, 1)  # type: ignore[arg-type]  # Batch.model_inputs fits the model
    size = loss_chunk(features.device, model.vocab_size)
    losses = [
        F.cross_entropy(model.logits(rows).float(), wanted, ignore_index=IGNORED, reduction="none")
        for rows, wanted in zip(features.split(size), targets.flatten().split(size), strict=True)
    ]
    return torch.cat(losses).view(targets.shape)


def projected_loss(
    features: Tensor,
    weight: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    kernel: LossAndGradient | None = None,
    vocabulary: int | None = None,
) -> Tensor:
    """Return the cross-entropy of the logits features · weightᵀ in nats, summed over non-padding tokens; for training.

    features [B, T, C] and weight [V, C] of one dtype, targets [B, T] int64 with IGNORED at padding -> scalar float32.
    Label smoothing follows Szegedy et al. 2016, section 7. Each chunk of logits is immediately converted to its
    gradient (Hsu et al. 2024, Liger Kernel, section 3.2), so that only one chunk is in memory at a time. kernel:
    `loss_and_gradient` or its compiled form. vocabulary: number of rows of weight that are real; the remaining rows are
    padding without logits or gradient, which aligns the rows of the products to 128 bytes.
    """
    return _ProjectedLoss.apply(
        features.flatten(0, 1),
        weight,
        targets.flatten(),
        label_smoothing,
        kernel or loss_and_gradient,
        len(weight) if vocabulary is None else vocabulary,
    )


def batch_loss(
    model: GPT | EncoderDecoder,
    inputs: tuple[Tensor | None, ...],
    targets: Tensor,
    label_smoothing: float = 0.0,
    kernel: LossAndGradient | None = None,
) -> Tensor:
    """Run the forward pass of training: `projected_loss` of a model on `Batch.model_inputs` -> scalar float32."""
    features = model.features(*inputs)  # type: ignore[arg-type]  # Batch.model_inputs fits the model
    return projected_loss(features, model.head.weight, targets, label_smoothing, kernel, model.vocab_size)


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        kernel: LossAndGradient,
        vocabulary: int,
    ) -> Tensor:
        size = loss_chunk(features.device, len(weight))
        padding = len(weight) - vocabulary
        total = torch.zeros((), device=features.device)
        grad_features = torch.empty_like(features)
        grad_weight: Tensor | None = None
        for first in range(0, len(features), size):
            rows = features[first : first + size]
            product = rows @ weight.t()  # [N, V]
            logits = product[:, :vocabulary] if padding else product
            loss, grad = kernel(logits, targets[first : first + size], smoothing)
            total += loss
            if padding:
                grad = F.pad(grad, (0, padding))
            torch.mm(grad, weight, out=grad_features[first : first + size])
            part = grad.t() @ rows
            grad_weight = part if grad_weight is None else grad_weight.float().add_(part)
        assert grad_weight is not None
        ctx.save_for_backward(grad_features, grad_weight.to(weight.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        grad_features, grad_weight = ctx.saved_tensors
        scale = grad.to(grad_features.dtype)
        return grad_features * scale, grad_weight * scale, None, None, None, None


def loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy of logits [N, V] and targets [N], scalar float32, and its gradient [N, V]."""
    real = (targets != IGNORED).unsqueeze(1).float()  # [N, 1]
    place = targets.clamp(min=0).unsqueeze(1)  # [N, 1]
    share = smoothing / logits.shape[1]
    largest = logits.amax(dim=-1, keepdim=True).float()  # [N, 1]
    powers = (logits - largest).exp_()  # [N, V] float32
    total = powers.sum(dim=-1, keepdim=True)  # [N, 1]
    losses = largest + total.log() - (1 - smoothing) * logits.gather(1, place).float()  # [N, 1]
    if smoothing:
        losses = losses - smoothing * logits.mean(dim=-1, keepdim=True, dtype=torch.float32)
    grad = powers.mul_(real / total)
    if smoothing:
        grad.sub_(share * real)
    grad = subtract_at(grad, place, (1 - smoothing) * real)
    return (losses * real).sum(), grad.to(logits.dtype)
