"""Compute the cross-entropy, summed so that a step averages over its tokens however it is split into micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from data.batches.batch import IGNORED, Batch
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.guided_alignment.guidance import Guidance
from training.optimizer.update import Optimizer
from training.optimizer.weights_gradients_ema import Weights
from training.processes.single_process import Processes

LossAndGradient = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]


class TrainingLoss:
    """The loss of a training step and its gradients. `training.hardware.compilation` has the compiled form."""

    compiled = failed = False
    """Whether compiled code computes the next step; whether it has failed, here or in another process."""

    def __init__(self, weights: Weights, smoothing: float, guidance: Guidance | None) -> None:
        """smoothing: of the labels. guidance: the loss of guided alignment; None without it."""
        self.weights, self.model = weights, weights.training_model
        self.smoothing, self.guidance = smoothing, guidance
        self.batch_loss: Callable[..., Tensor] = batch_loss
        self.log: Callable[[str], None] = print

    def gradients(self, batch: Batch, targets: int) -> tuple[Tensor, list[Tensor]]:
        """Return the summed loss of a micro-batch, scalar float32, detached, and the gradients of the trained
        parameters, in the compute dtype.

        targets: non-padding target tokens of the whole step, the divisor of the loss: 4 micro-batches of 1 row then
        equal 1 micro-batch of 4 rows despite padding.
        """
        # Forward: what the model predicts for every position, compared with the token that follows.
        loss = self.batch_loss(self.model, batch.model_inputs, batch.targets, self.smoothing)
        guided = loss if self.guidance is None else loss + self.guidance.loss(batch)
        # Backward: how the mean loss changes with each parameter. This frees the activations.
        return loss.detach(), self.weights.gradients_of(guided, targets)

    def compile_update(self, optimizer: Optimizer, processes: Processes) -> None:
        """Prepare the first update, once the first gradients have shown whether compiled code works. Collective; here
        there is nothing to do."""

    def fall_back(self, reason: str) -> None:
        """Continue without compilation, as this class always does."""


@torch.no_grad()
def token_losses(model: GPT | EncoderDecoder, inputs: tuple[Tensor | None, ...], targets: Tensor) -> Tensor:
    """Return the cross-entropy of every token in nats, 0 where the target is IGNORED; for evaluation.

    inputs: `Batch.model_inputs`, targets [B, T] -> float32 [B, T]. As in training, the full logits are never stored.
    """
    features = model.features(*inputs).flatten(0, 1)  # type: ignore[arg-type]  # Batch.model_inputs fits the model
    size = loss_chunk(features.device, model.vocab_size)
    # Nothing is kept for a backward pass, so that a chunk's logits are free as soon as its losses are known.
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
    # The blocks turn tokens into features; what is left of the model is one product with the head, which gives a score
    # to each token of the vocabulary. These logits are the largest tensor of a step, so the loss makes them in chunks.
    features = model.features(*inputs)  # type: ignore[arg-type]  # Batch.model_inputs fits the model
    weight = model.head.weight
    if model.head.bias is not None:  # a bias is the weight of an input that is always 1
        features = F.pad(features, (0, 1), value=1.0)
        weight = torch.cat((weight, model.head.bias.unsqueeze(1)), dim=1)
    return projected_loss(features, weight, targets, label_smoothing, kernel, model.vocab_size)


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
        # Forward and backward pass of each chunk at once, while its logits are in memory; `backward` only scales.
        # Nothing that is returned or saved changes in place: torch 2.11 compiles that to gradients of zero.
        size = loss_chunk(features.device, len(weight))
        padding = len(weight) - vocabulary
        total = torch.zeros((), device=features.device)
        grad_features = []
        grad_weight: Tensor | None = None
        for first in range(0, len(features), size):
            rows = features[first : first + size]
            product = rows @ weight.t()  # [N, V]
            logits = product[:, :vocabulary] if padding else product
            loss, grad = kernel(logits, targets[first : first + size], smoothing)
            total = total + loss
            if padding:
                grad = F.pad(grad, (0, padding))
            grad_features.append(grad @ weight)
            # All chunks add to one gradient of the head; bfloat16 would round away most of what the last ones add.
            part = grad.t() @ rows
            grad_weight = part if grad_weight is None else grad_weight.float() + part
        assert grad_weight is not None
        ctx.save_for_backward(torch.cat(grad_features), grad_weight.to(weight.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        # The chain rule: `grad` is 1 / tokens of the step, by which the loss is divided after this function.
        grad_features, grad_weight = ctx.saved_tensors
        scale = grad.to(grad_features.dtype)
        return grad_features * scale, grad_weight * scale, None, None, None, None


def loss_and_gradient(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy of logits [N, V] and targets [N], scalar float32, and its gradient [N, V]."""
    real = (targets != IGNORED).unsqueeze(1).float()  # [N, 1]
    place = targets.clamp(min=0).unsqueeze(1)  # [N, 1]
    share = smoothing / logits.shape[1]
    # -log softmax, shifted by the largest logit so that no exponential overflows.
    largest = logits.amax(dim=-1, keepdim=True).float()  # [N, 1]
    powers = (logits - largest).exp_()  # [N, V] float32
    total = powers.sum(dim=-1, keepdim=True)  # [N, 1]
    losses = largest + total.log() - (1 - smoothing) * logits.gather(1, place).float()  # [N, 1]
    # Label smoothing asks for the token with probability 1 - smoothing, and for any token with what is left.
    if smoothing:
        losses = losses - smoothing * logits.mean(dim=-1, keepdim=True, dtype=torch.float32)
    # Its gradient: the predicted probabilities minus the wanted ones; 0 at padding.
    grad = powers.mul_(real / total)
    if smoothing:
        grad.sub_(share * real)
    grad = subtract_at(grad, place, (1 - smoothing) * real)
    return (losses * real).sum(), grad.to(logits.dtype)


_LOGITS, _GPU_LOGITS, _TOKENS = 1 << 23, 1 << 28, 1024
"""Logits in memory at a time: 16 MB in bfloat16 on a CPU, half a gigabyte on a GPU, which needs larger products (plus
twice as much in float32 if uncompiled). At least 1,024 tokens, since each chunk updates the whole weight gradient."""


def loss_chunk(device: torch.device, vocabulary: int) -> int:
    """Return the number of tokens whose logits are in memory at a time, a power of two."""
    logits = _LOGITS if device.type == "cpu" else _GPU_LOGITS
    return max(_TOKENS, 1 << (logits // vocabulary).bit_length() - 1)


def subtract_at(matrix: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    """Subtract values [N, 1] from matrix [N, V] at columns [N, 1], in place if eager -> the result."""
    if torch.compiler.is_compiling():  # unlike a scatter, a comparison is fused: a third of the time
        every = torch.arange(matrix.shape[1], dtype=torch.int32, device=matrix.device)
        return matrix - torch.where(every == columns.int(), values, 0.0)
    return matrix.scatter_add_(1, columns, -values)
