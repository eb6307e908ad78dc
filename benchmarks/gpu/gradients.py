"""Compare the gradients of a training step, eager and compiled, with those of the definition, on this device.

Only gradients show some errors of a compiler: under torch 2.11, compiled code computed the right loss and gradients of
zero. The definition is torch's own cross-entropy of the model's logits in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.device import device
from benchmarks.gpu.figures import Figure, Inputs, attempt
from data.batches.batch import IGNORED, Batch
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig, TrainerConfig
from training.hardware.compilation import CompiledLoss, training_loss
from training.hardware.compiled_check import BOUNDS, Difference, largest_difference
from training.hardware.device import Hardware
from training.hardware.gpu_attention import training_kernels
from training.optimizer.weights_gradients_ema import Weights, trained_parameters
from training.run_folder.loaded_run import Model

CALLS = 3
"""Of compiled code: the last one certainly replays a CUDA graph, if there is one."""

VOCABULARY, ROWS, LENGTH = 1000, 8, 128

LossAndGradients = tuple[Tensor, list[Tensor]]
"""Summed loss, and the gradients of its mean over all targets, in the model's order."""


def gradients(inputs: Inputs) -> Iterator[Figure]:
    """Compare gradients of a small GPT and of a small translator, in bf16 and in float32: compiled, eager, defined."""
    for dtype in (torch.bfloat16, torch.float32):
        for task in ("gpt", "translate"):
            name = f"{task}, {str(dtype).removeprefix('torch.')}: largest relative error of a gradient"
            yield attempt(name, partial(compare, name, task, dtype, compiling=not inputs.dry_run))


def compare(name: str, task: str, dtype: torch.dtype, compiling: bool) -> Figure:
    """Return the figure of a model: the largest error of eager and of compiled code. Raises ArithmeticError if an error
    exceeds the bound of its number format, or if the trainer rejects the compiled code."""
    batch = batch_of(task).to(device())
    exact = defined(small(task).to(device(), dtype).double(), batch)
    forms = {"eager": "off"} | ({"compiled": "on"} if compiling else {})
    worst = {form: difference(task, dtype, choice, batch, exact) for form, choice in forms.items()}
    text = ", ".join(f"{form} {error.error:.2g} ({error.where})" for form, error in worst.items())
    bound = BOUNDS[dtype]
    if any(error.is_wrong(dtype) for error in worst.values()):
        raise ArithmeticError(f"{text}; at most {bound:g} is rounding")
    facts = {"errors": {form: asdict(error) for form, error in worst.items()}}
    return Figure(name, text, f"of {len(exact[1])} parameters; limit {bound:g}", facts=facts)


def difference(task: str, dtype: torch.dtype, compile: str, batch: Batch, exact: LossAndGradients) -> Difference:
    """Return the largest error of the loss and the gradients of a training step; compile: setting of the trainer.
    Raises ArithmeticError if the trainer rejects the compiled code."""
    config = TrainConfig(task=task, trainer=TrainerConfig(compile=compile))
    weights = Weights(small(task).to(device()), dtype, 0.0)
    loss, _ = training_loss(config, weights, Hardware(device(), dtype, None, ""), 1.0, None)
    messages: list[str] = []
    loss.log = messages.append
    with training_kernels(config, device())():
        for _ in range(CALLS if isinstance(loss, CompiledLoss) else 1):
            computed = loss.gradients(batch, batch.target_tokens)
    if loss.failed:
        raise ArithmeticError(messages[-1].removeprefix("warning: "))
    worst = largest_difference(list(weights.layout.shapes), computed, exact)
    if worst is None:
        raise ArithmeticError("the loss or a gradient is not finite")
    return worst


def defined(model: Model, batch: Batch) -> LossAndGradients:
    """Return the result of a training step by definition, in the model's number format."""
    logits = model(*batch.model_inputs).flatten(0, 1)
    loss = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")
    gradients = torch.autograd.grad(loss / batch.target_tokens, list(trained_parameters(model).values()))
    return loss.detach(), list(gradients)


def small(task: str) -> Model:
    """Return a model of two layers with the default architecture of its task, always with the same weights."""
    torch.manual_seed(0)
    config = ModelConfig(layers=2, heads=2, width=128, context=LENGTH)
    return GPT(config, VOCABULARY) if task == "gpt" else EncoderDecoder(config, VOCABULARY, VOCABULARY, shared=True)


def batch_of(task: str) -> Batch:
    """Return random tokens; for a translator, of several lengths."""
    torch.manual_seed(1)
    tokens = torch.randint(1, VOCABULARY, (ROWS, LENGTH + 1))
    if task == "gpt":
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    real = torch.arange(LENGTH) < torch.linspace(LENGTH // 2, LENGTH, ROWS).long()[:, None]  # [B, T]
    source = tokens[:, :-1].flip(1).contiguous() * real
    return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].masked_fill(~real, IGNORED), source, real)
