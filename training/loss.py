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
from model.layers import capped
from training.hardware.chunks import loss_chunk, subtract_at

LossAndGradient = Callable[[Tensor, Tensor, float, float], tuple[Tensor, Tensor]]


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
    r_drop: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of the logits features · weightᵀ in nats, summed over non-padding tokens; for training.

    features [B, T, C] and weight [V, C] of one dtype, targets [B, T] int64 with IGNORED at padding -> scalar float32.
    Label smoothing follows Szegedy et al. 2016, section 7. Each chunk of logits is immediately converted to its
    gradient (Hsu et al. 2024, Liger Kernel, section 3.2), so that only one chunk is in memory at a time. kernel:
    `loss_and_gradient` or its compiled form. vocabulary: number of rows of weight that are real; the remaining rows are
    padding without logits or gradient, which aligns the rows of the products to 128 bytes. r_drop: as in
    `loss_and_gradient`; features [N, 2, C] and targets [N, 2] then hold two passes over each of N positions.
    """
    return _ProjectedLoss.apply(
        features.flatten(0, 1),
        weight,
        targets.flatten(),
        label_smoothing,
        kernel or loss_and_gradient,
        len(weight) if vocabulary is None else vocabulary,
        r_drop,
    )


def batch_loss(
    model: GPT | EncoderDecoder,
    inputs: tuple[Tensor | None, ...],
    targets: Tensor,
    label_smoothing: float = 0.0,
    r_drop: float = 0.0,
    kernel: LossAndGradient | None = None,
) -> Tensor:
    """Run the forward pass of training: `projected_loss` of a model on `Batch.model_inputs` -> scalar float32.

    With `r_drop` the batch is read twice, each time with dropout of its own, in one pass over twice as many rows.
    """
    if r_drop:
        inputs = tuple(None if each is None else torch.cat((each, each)) for each in inputs)
    features = model.features(*inputs)  # type: ignore[arg-type]  # Batch.model_inputs fits the model
    if r_drop:
        features = features.unflatten(0, (2, -1)).movedim(0, 2).flatten(0, 1)  # [2B, T, C] -> [BT, 2, C]
        targets = targets.flatten().unsqueeze(1).expand(-1, 2)  # [BT, 2]
    weight, cap = model.head.weight, model.config.logit_cap
    if model.head.bias is not None:  # a bias is the weight of an input that is always 1
        features = F.pad(features, (0, 1), value=1.0)
        weight = torch.cat((weight, model.head.bias.unsqueeze(1)), dim=1)
    if cap is not None:
        kernel = capped_kernel(kernel or loss_and_gradient, cap)
    return projected_loss(features, weight, targets, label_smoothing, kernel, model.vocab_size, r_drop)


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
        r_drop: float,
    ) -> Tensor:
        # Nothing that is returned or saved changes in place: torch 2.11 compiles that to gradients of zero.
        size = loss_chunk(features.device, len(weight))  # even: no pair of rows is divided
        padding = len(weight) - vocabulary
        total = torch.zeros((), device=features.device)
        grad_features = []
        grad_weight: Tensor | None = None
        for first in range(0, len(features), size):
            rows = features[first : first + size]
            product = rows @ weight.t()  # [N, V]
            logits = product[:, :vocabulary] if padding else product
            loss, grad = kernel(logits, targets[first : first + size], smoothing, r_drop)
            total = total + loss
            if padding:
                grad = F.pad(grad, (0, padding))
            grad_features.append(grad @ weight)
            part = grad.t() @ rows
            grad_weight = part if grad_weight is None else grad_weight.float() + part
        assert grad_weight is not None
        ctx.save_for_backward(torch.cat(grad_features), grad_weight.to(weight.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        grad_features, grad_weight = ctx.saved_tensors
        scale = grad.to(grad_features.dtype)
        return grad_features * scale, grad_weight * scale, None, None, None, None, None


def loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float, r_drop: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy of logits [N, V] and targets [N], scalar float32, and its gradient [N, V].

    With `r_drop`, rows 2i and 2i + 1 are two passes over the same position with different dropout. The loss is then the
    mean of their cross-entropies plus r_drop / 4 times their `divergence_and_gradient`: half of the loss of R-Drop
    (Liang et al. 2021, arXiv 2106.14448) with α = r_drop, so that it is comparable to the loss without it.
    """
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
    loss = (losses * real).sum()
    if r_drop:
        divergence, slope = divergence_and_gradient(logits, real)
        loss, grad = loss / 2 + r_drop / 4 * divergence, grad / 2 + r_drop / 4 * slope
    return loss, grad.to(logits.dtype)


def capped_kernel(kernel: LossAndGradient, cap: float) -> LossAndGradient:
    """Return `kernel` for logits before the cap of `config.logit_cap`, whose derivative is 1 - tanh²."""

    def loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float, r_drop: float) -> tuple[Tensor, Tensor]:
        limited = capped(logits, cap)
        loss, grad = kernel(limited, targets, smoothing, r_drop)
        return loss, grad * (1 - (limited / cap).square())

    return loss_and_gradient


def divergence_and_gradient(logits: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Return KL(p ‖ q) + KL(q ‖ p) of the distributions of rows 2i and 2i + 1 of logits [N, V], summed over i, and its
    gradient [N, V] = p (log p/q - KL(p ‖ q)) + p - q for each row and its partner; real [N, 1] is 0 at padding."""
    logs = logits.float().log_softmax(dim=-1).unflatten(0, (-1, 2))  # [N / 2, 2, V]
    own = logs.exp()
    ratio = logs - logs.flip(1)
    divergence = (own * ratio).sum(dim=-1, keepdim=True)  # [N / 2, 2, 1]: of each row from its partner
    slope = own * (ratio - divergence) + own - own.flip(1)
    return (divergence.flatten(0, 1) * real).sum(), slope.flatten(0, 1) * real
